"""Where the agents live: ``stacked`` keeps all of them in this process, ``mpi`` spreads them."""

from dual2.runtime.circle import Circle
from dual2.runtime.placing import Place, find_place, place
from dual2.runtime.share import Share, share_of, take_share
from dual2.runtime.stacked import Stacked

__all__ = [
    "Circle",
    "Place",
    "Share",
    "Stacked",
    "find_place",
    "place",
    "share_of",
    "take_share",
]
