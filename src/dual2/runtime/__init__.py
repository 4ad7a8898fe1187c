"""Where the agents live: ``stacked`` keeps all of them in this process."""

from dual2.runtime.stacked import Stacked

__all__ = ["Stacked"]
