"""What is now ``dual2.bench`` and ``dual2.paper``; this path goes with the next release."""

import warnings

from dual2.bench import Benchmark, benchmark
from dual2.paper import Experiment, experiment1, experiment2, experiment3
from dual2.paper.reproduction import reproduce

__all__ = [
    "Benchmark",
    "Experiment",
    "benchmark",
    "experiment1",
    "experiment2",
    "experiment3",
    "reproduce",
]

warnings.warn(
    "dual2.experiments is now dual2.bench (the harness) and dual2.paper (the reproduction); the "
    "old path goes with the next release.",
    DeprecationWarning,
    stacklevel=2,
)
