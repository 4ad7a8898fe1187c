"""The package's version, where every module may read it."""

__version__ = "0.1.0"


def versions() -> dict[str, str]:
    """Versions of what computed the answer."""
    import platform

    import numba
    import numpy as np
    import scipy

    return {
        "dual2": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "numba": numba.__version__,
    }
