"""Kernels compiled ahead for x86-64-v3, as the package ``dual2-kernels`` brings them.

They are used only where they must be right: same sources, same versions of Python, Numba,
llvmlite and NumPy, the system they were made for, and a processor that has every instruction they
may contain. Otherwise kernels compile on this machine as if there were none.
"""

import importlib.util
import json
import logging
import os
import platform
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import llvmlite.binding

PACKAGE = "dual2_kernels"
"""The package with the kernels and their manifest."""
MANIFEST = "manifest.json"
VARIABLE = "DUAL2_KERNELS"
"""Environment variable: a folder to take instead of the package, or ``off``."""
PROCESSOR = "x86-64-v3"
FEATURES = (
    "avx,avx2,bmi,bmi2,cmov,cx16,cx8,f16c,fma,fxsr,lzcnt,mmx,movbe,popcnt,sahf,"
    "sse,sse2,sse3,sse4.1,sse4.2,ssse3,xsave"
).split(",")
"""What processors of that level have: most of 2013 (Intel) and 2015 (AMD) on."""
OVERRIDES = ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "NUMBA_OPT", "NUMBA_BOUNDSCHECK")
"""Who sets one of these wants code of a certain kind, and gets it compiled."""
_log = logging.getLogger("dual2")


@dataclass(frozen=True)
class Shipped:
    """Kernels that fit.

    Attributes
    ----------
    folder : Path
        Where their files are.
    target : tuple
        What Numba calls the processor they were compiled for, part of the key of each.
    """

    folder: Path
    target: tuple[str, ...]


def manifest(stamp: str, target: tuple[str, ...]) -> dict[str, Any]:
    """What must be equal where kernels are made and where they are used, and the target."""
    return {
        "stamp": stamp,
        "python": sys.implementation.cache_tag,
        "system": f"{platform.system()} {platform.machine()}",
        "target": list(target),
        "features": FEATURES,
    }


def find_shipped(stamp: str) -> Shipped | None:
    """The shipped kernels if they fit, by the stamp of the sources; the log says why if not."""
    folder = _folder()
    if folder is None:
        return None
    try:
        found = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        reason = _misfit(found, stamp)
    except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        found, reason = {}, f"their manifest cannot be read ({error})"
    if reason:
        _log.info("The kernels in %s are not used: %s.", folder, reason)
        return None
    return Shipped(folder, tuple(found["target"]))


def _folder() -> Path | None:
    asked = os.environ.get(VARIABLE)
    if asked:
        return None if asked == "off" else Path(asked)
    spec = importlib.util.find_spec(PACKAGE)
    places = spec.submodule_search_locations if spec else None
    return Path(next(iter(places))) if places else None


def _misfit(found: dict[str, Any], stamp: str) -> str:
    """Why kernels with this manifest must not be used here; empty if they may."""
    here = manifest(stamp, ())
    for name, what in (
        ("stamp", "they were made from other sources or versions of the compiler"),
        ("python", "they were made for another Python"),
        ("system", "they were made for another system"),
    ):
        if found[name] != here[name]:
            return what
    if not isinstance(found["target"], list) or len(found["target"]) != 3:
        return "their target is not known"
    override = next((name for name in OVERRIDES if os.environ.get(name)), None)
    if override:
        return f"{override} is set"
    host = llvmlite.binding.get_host_cpu_features()
    missing = [name for name in found["features"] if not host.get(name)]
    return f"this processor lacks {', '.join(missing)}" if missing else ""
