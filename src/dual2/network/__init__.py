"""Graphs as gossip matrices: edge weights, spectrum, Chebyshev acceleration, spanning tree."""

from dual2.network.chebyshev import ChebyshevNetwork
from dual2.network.gossip import Network, Tree

__all__ = ["ChebyshevNetwork", "Network", "Tree"]
