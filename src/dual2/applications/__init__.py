"""The applications have packages of their own: :mod:`dual2.power` and :mod:`dual2.mpc`.

This one keeps the old paths for one release; see :mod:`dual2.moved`.
"""

import warnings
from importlib import import_module
from types import ModuleType

_PRESENT = {"dispatch": "dual2.power", "mpc": "dual2.mpc"}


def __getattr__(name: str) -> ModuleType:
    """The present package in the place of the old one."""
    if name not in _PRESENT:
        raise AttributeError(f"module 'dual2.applications' has no attribute {name!r}")
    message = f"dual2.applications.{name} has moved to {_PRESENT[name]}; the old path goes soon."
    warnings.warn(message, DeprecationWarning, stacklevel=2)
    return import_module(_PRESENT[name])
