"""Homogeneous interior-point method over exact sums; the loop is in :mod:`.algorithm`."""

from dual2.methods.interior_point.plan import INTERIOR_POINT

__all__ = ["INTERIOR_POINT"]
