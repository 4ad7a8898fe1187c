"""The nets of pandapower, half a second each to read: read once, copied for each test."""

import copy
from functools import cache
from typing import Any


def net(name: str) -> Any:
    """A net of one's own, e.g. ``net("case14")``."""
    return copy.deepcopy(_read(name))


@cache
def _read(name: str) -> Any:
    import pandapower.networks  # here, since every worker would read it with the tests

    return getattr(pandapower.networks, name)()
