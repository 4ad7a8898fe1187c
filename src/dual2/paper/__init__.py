"""The paper reproduced: its problems, the runs of its experiments, and a verdict on each claim.

``reproduce`` is imported when it is first used: the harness in ``dual2.bench`` knows the problems
of this package, and the reproduction uses the harness.
"""

from typing import TYPE_CHECKING, Any

from dual2.paper.problems import Experiment, experiment1, experiment2, experiment3

if TYPE_CHECKING:
    from dual2.paper.reproduction import reproduce

__all__ = ["Experiment", "experiment1", "experiment2", "experiment3", "reproduce"]


def __getattr__(name: str) -> Any:
    """The reproduction, with the first use (PEP 562)."""
    if name != "reproduce":
        raise AttributeError(f"module 'dual2.paper' has no attribute {name!r}")
    from dual2.paper.reproduction import reproduce

    return reproduce
