"""Agents as real processes: starting them, their files, checkpoints, and how they fail."""
