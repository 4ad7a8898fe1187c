"""From the word for a runtime to a placed problem, and from that to its rows."""

from functools import cache
from typing import Any, Protocol

from dual2.errors import CapabilityError
from dual2.functions import Function
from dual2.network import ChebyshevNetwork, Network
from dual2.problem import Problem
from dual2.runtime.share import Share, share_of
from dual2.runtime.stacked import Stacked


class Place(Protocol):
    """A runtime, as far as ``solve`` looks at it."""

    def share(self, problem: Problem, network: Network | ChebyshevNetwork) -> Share:
        """The part of a problem that belongs to this process, with agreement."""
        ...


class InProcess:
    """All agents in this process."""

    def share(self, problem: Problem, network: Network | ChebyshevNetwork) -> Share:
        """All of the problem."""
        return share_of(problem, network)


@cache
def _whole_job() -> Place:
    """The processes of the MPI job that this one belongs to, set up once."""
    from dual2.runtime.mpi import Mpi

    return Mpi()


def find_place(runtime: Any) -> Place:
    """``"stacked"``, ``"mpi"`` or an object such as :class:`dual2.runtime.mpi.Mpi`.

    Examples
    --------
    >>> type(find_place("stacked")).__name__
    'InProcess'
    """
    if runtime == "stacked":
        return InProcess()
    if runtime == "mpi":
        return _whole_job()
    if hasattr(runtime, "share"):
        return runtime
    raise CapabilityError(f"runtime={runtime!r} is unknown; use 'stacked' or 'mpi'.")


def place(
    problem: Problem, network: Network | ChebyshevNetwork, smooth: Function | None = None
) -> Stacked:
    """The rows of this process: where the problem was placed, or all of them here."""
    share = share_of(problem, network)
    if share.agreement.size == 1:
        return Stacked(share, network, smooth)
    from dual2.runtime.spread import Spread

    return Spread(share, network, smooth)
