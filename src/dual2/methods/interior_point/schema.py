"""The message schema of all methods, under the name by which this package imports it."""

from dual2.methods.message import Fields, Schema

__all__ = ["Fields", "Schema"]
