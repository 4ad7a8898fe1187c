"""Methods, problems and networks of the user's own, named ``module:attribute``.

The folder of a config is searched first, then whatever Python finds by itself. An installed package
may give such a name a short one: an entry point of the group ``dual2.methods``,
``dual2.problems`` or ``dual2.networks``.
"""

import hashlib
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

from dual2.errors import CapabilityError, Dual2Error, near_names
from dual2.methods import find_method
from dual2.methods.method import Method
from dual2.methods.registry import AUTO

EXPECTED = "expected 'module:attribute', for instance 'mymethod:METHOD'"

SHOWN = 8
"""Names of a module that an error lists at most."""

_FOLDERS: list[Path] = []
"""Folders of configs, which Python searches for modules."""


def search_in(folder: str | os.PathLike[str]) -> None:
    """Let Python find the modules of a folder; worker processes inherit it."""
    place = Path(folder).resolve()
    if place not in _FOLDERS:
        _FOLDERS.append(place)
    if str(place) not in sys.path:
        sys.path.insert(0, str(place))
        importlib.invalidate_caches()


def is_imported(name: str) -> bool:
    """Whether a name means an attribute of a module, and none of ours."""
    return ":" in name


def entry_point(kind: str, name: str) -> str:
    """``module:attribute`` of an installed entry point; empty if there is none of that name.

    ``kind``: ``"methods"``, ``"problems"`` or ``"networks"``. Two packages that claim one name are
    an error.

    Examples
    --------
    >>> entry_point("methods", "nobody's")
    ''
    """
    found = {one.value for one in entry_points(group=f"dual2.{kind}", name=name)}
    if len(found) > 1:
        raise Dual2Error(
            f"{name!r} is an entry point of dual2.{kind} in more than one package: "
            f"{', '.join(sorted(found))}. Name the one you mean as module:attribute."
        )
    return found.pop() if found else ""


def find_object(name: str) -> Any:
    """What ``module:attribute`` means; an error says what is missing.

    Examples
    --------
    >>> find_object("math:sqrt")(4.0)
    2.0
    >>> find_object("math:sqr")
    Traceback (most recent call last):
    dual2.errors.Dual2Error: The module 'math' has no 'sqr'; expected one of sqrt...
    """
    module_name, _, attribute = name.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), attribute)):
        raise Dual2Error(f"{name!r} found; {EXPECTED}.")
    module = _import(module_name)
    if not hasattr(module, attribute):
        known = [known for known in vars(module) if not known.startswith("_")]
        near = near_names(attribute, known)
        raise Dual2Error(
            f"The module {module_name!r} has no {attribute!r}; "
            f"expected one of {', '.join((near or known)[:SHOWN]) or 'its names'}."
        )
    return getattr(module, attribute)


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or name
        if name == missing or name.startswith(f"{missing}."):
            places = ", ".join(map(str, _FOLDERS)) or "no folder of a config"
            raise Dual2Error(
                f"There is no module {missing!r}. Python looked in {places} and among the "
                f"installed packages; put {missing}.py beside the config, or install it."
            ) from error
        raise Dual2Error(
            f"The module {name!r} cannot be imported: it needs {missing!r}, which is not installed."
        ) from error
    except Exception as error:
        raise Dual2Error(
            f"The module {name!r} cannot be imported: {type(error).__name__}: {error}."
        ) from error


def find_function(name: str, first: str) -> Callable[..., Any]:
    """A function whose first argument is ``first``, the others by name.

    Examples
    --------
    >>> find_function("math:pi", "seed")
    Traceback (most recent call last):
    dual2.errors.Dual2Error: math:pi is a float; expected a function math:pi(seed, …).
    """
    found = find_object(name)
    if not callable(found):
        raise Dual2Error(
            f"{name} is a {type(found).__name__}; expected a function {name}({first}, …)."
        )
    kinds = [one.kind for one in inspect.signature(found).parameters.values()]
    positional = (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.VAR_POSITIONAL,
    )
    if not kinds or kinds[0] not in positional or inspect.Parameter.POSITIONAL_ONLY in kinds[1:]:
        raise Dual2Error(
            f"{name}{inspect.signature(found)} found; expected {name}({first}, …): {first} as its "
            "first argument, and arguments with names."
        )
    return found


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Kinds of the arguments that a function declares; none if the annotations mean nothing."""
    try:
        return get_type_hints(function, include_extras=True)
    except (NameError, TypeError):
        return {}


def is_method(name: str) -> bool:
    """Whether a name is that of one of our methods, or ``"auto"``."""
    try:
        find_method(name)
    except CapabilityError:
        return name.lower() == AUTO
    return True


def method_called(name: str) -> Method | str:
    """A method by our name, an entry point's or ``module:attribute``; ``"auto"`` stays as it is.

    Examples
    --------
    >>> method_called("id2a").name, method_called("auto")
    ('iD2A', 'auto')
    >>> method_called("math:pi")
    Traceback (most recent call last):
    dual2.errors.CapabilityError: math:pi is a float; expected a Method, which ...
    """
    if name.lower() == AUTO:
        return AUTO
    if not is_imported(name):
        plugin = "" if is_method(name) else entry_point("methods", name)
        if not plugin:
            return find_method(name)
        name = plugin
    found = find_object(name)
    if not isinstance(found, Method):
        raise CapabilityError(
            f"{name} is a {type(found).__name__}; expected a Method, which single_loop_method and "
            "the guide 'How to add an algorithm' make."
        )
    return found


def call(name: str, function: Callable[..., Any], first: Any, options: Mapping[str, Any]) -> Any:
    """Call a function of the user's; whatever it raises becomes an error that names it."""
    try:
        return function(first, **options)
    except Dual2Error:
        raise
    except Exception as error:
        words = ", ".join([repr(first), *(f"{key}={value!r}" for key, value in options.items())])
        raise Dual2Error(f"{name}({words}) ended with {type(error).__name__}: {error}.") from error


def code_digests(names: Iterable[str]) -> dict[str, str]:
    """Hash of the source behind each ``module:attribute`` among some names.

    Modules that are loaded from the same package, or lie in the same folder of a config, belong to
    it: an edit in any of them gives another hash.
    """
    return {name: _digest(name) for name in sorted(set(names)) if is_imported(name)}


def _digest(name: str) -> str:
    module = sys.modules[name.partition(":")[0]]
    top, file = module.__name__.partition(".")[0], getattr(module, "__file__", None)
    folder = Path(file).resolve().parent if file else None
    files = set()
    for other in list(sys.modules.values()):
        own = getattr(other, "__file__", None)
        if own and (
            getattr(other, "__name__", "").partition(".")[0] == top
            or (folder in _FOLDERS and Path(own).resolve().parent == folder)
        ):
            files.add(Path(own).resolve())
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(files):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
