"""The paper's experiments, ready to run."""

from dual2.experiments.exp1 import Experiment, experiment1
from dual2.experiments.reproduce import reproduce

__all__ = ["Experiment", "experiment1", "reproduce"]
