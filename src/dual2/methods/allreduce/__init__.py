"""First-order methods with one exact sum over all agents in each iteration."""
