"""What is now :mod:`dual2.bench` and :mod:`dual2.paper`; this path goes with the next release."""

import warnings
from importlib import import_module
from typing import Any

_PRESENT = {
    "Benchmark": "dual2.bench",
    "benchmark": "dual2.bench",
    "Experiment": "dual2.paper",
    "experiment1": "dual2.paper",
    "experiment2": "dual2.paper",
    "experiment3": "dual2.paper",
    "reproduce": "dual2.paper.reproduction",
}


def __getattr__(name: str) -> Any:
    """The name from its present package."""
    if name not in _PRESENT:
        raise AttributeError(f"module 'dual2.experiments' has no attribute {name!r}")
    message = f"dual2.experiments.{name} has moved to {_PRESENT[name]}; the old path goes soon."
    warnings.warn(message, DeprecationWarning, stacklevel=2)
    return getattr(import_module(_PRESENT[name]), name)
