"""Newton on the dual, over exact sums along the spanning tree."""
