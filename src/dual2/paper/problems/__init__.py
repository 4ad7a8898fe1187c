"""The problems of the paper's three experiments, with their networks and solutions."""

from dual2.paper.problems.constrained_regression import experiment2
from dual2.paper.problems.elastic_net_regression import experiment1
from dual2.paper.problems.experiment import Experiment
from dual2.paper.problems.resource_allocation import experiment3

__all__ = ["Experiment", "experiment1", "experiment2", "experiment3"]
