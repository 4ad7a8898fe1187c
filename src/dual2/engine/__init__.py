"""The compiled engine: arrays instead of objects, kernels for one agent and for the exchange."""
