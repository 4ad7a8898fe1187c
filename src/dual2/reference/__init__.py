"""Centralised reference solutions (extra ``reference``)."""

from dual2.reference.central import Reference, solve_reference

__all__ = ["Reference", "solve_reference"]
