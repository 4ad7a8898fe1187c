"""Processes of organisations that trust only their own machine: links, masks, a log to resume."""
