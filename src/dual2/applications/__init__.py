"""Problems that practitioners have, stated in their own words and solved over a network.

``dispatch``
    Who produces how much: generators, storage, demand, reserves, ramps, prices.
``mpc``
    Distributed model predictive control: linear subsystems that share resources.
"""

from dual2.applications import dispatch, mpc

__all__ = ["dispatch", "mpc"]
