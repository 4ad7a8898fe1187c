"""Problems that practitioners have, stated in their own words and solved over a network.

``dispatch``
    Who produces how much: generators, storage, demand, reserves, ramps, prices.
``mpc``
    Distributed model predictive control: linear subsystems that share resources.
"""
