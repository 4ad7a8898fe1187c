"""Graphs as gossip matrices: edge weights, spectrum, Chebyshev acceleration, spanning tree."""

from dual2.network.chebyshev import ChebyshevNetwork
from dual2.network.gossip import Network, Tree

AnyNetwork = Network | ChebyshevNetwork
"""A network, or a polynomial of one."""

__all__ = ["AnyNetwork", "ChebyshevNetwork", "Network", "Tree"]
