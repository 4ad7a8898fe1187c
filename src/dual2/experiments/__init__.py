"""The paper's experiments and benchmarks of one's own, ready to run."""

from dual2.experiments.benchmark import Benchmark, benchmark
from dual2.experiments.exp1 import experiment1
from dual2.experiments.exp2 import experiment2
from dual2.experiments.exp3 import experiment3
from dual2.experiments.experiment import Experiment
from dual2.experiments.reproduce import reproduce

__all__ = [
    "Benchmark",
    "Experiment",
    "benchmark",
    "experiment1",
    "experiment2",
    "experiment3",
    "reproduce",
]
