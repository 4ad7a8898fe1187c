"""Problem folders: one public file, one private file per agent.

::

    DIR/problem.toml      format version, h, network, options of solve; what everybody may know
    DIR/problem.npz       large arrays of problem.toml, if any
    DIR/agents/0.toml     A, f, g of agent 0; small ones as text,
    DIR/agents/1.npz      large ones as arrays

Each file can be read without the others, so that a process may hold its own agent's data only.
How functions are written: :mod:`dual2.solving.storage.codec`.
"""

import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from dual2.errors import Dual2Error, ProblemError, counted
from dual2.files import digest, read_bytes, refuse_existing
from dual2.functions import Function
from dual2.network import Network
from dual2.problem import Agent, Problem
from dual2.solving.storage.codec import decode, decode_network, encode, encode_agent, encode_network
from dual2.solving.storage.documents import read_document, write_document

FORMAT = 1
"""Version of the format that this package writes and reads."""

SMALL = 200
"""An agent with at most so many numbers is written as text; so is an array of h or the network."""

PUBLIC_FILES = ("problem.toml", "problem.npz")
SUFFIXES = (".npz", ".toml")

NUMBER, TEXT, TRUTH = (int, float), (str,), (bool,)
OPTIONS = {
    "method": TEXT,
    "subsolver": TEXT,
    "rho": (*NUMBER, *TEXT),
    "tol": NUMBER,
    "atol": NUMBER,
    "max_rounds": NUMBER,
    "time_limit": NUMBER,
    "constants": TEXT,
    "accuracy": TEXT,
    "record": TRUTH,
    "progress": TRUTH,
    "seed": (int,),
    "sums": TEXT,
    "reduce": TRUTH,
    "throw": TRUTH,
}
"""Types of arguments of ``solve`` that a folder may keep; those of methods are up to them."""
NO_OPTIONS = ("problem", "network", "start", "reference", "callback", "runtime", "checkpoints")
"""Arguments of ``solve`` that a folder cannot keep."""

T = TypeVar("T")


class Public(NamedTuple):
    """What every agent may know: the coupling function, the network, options of ``solve``."""

    h: Function
    network: Network
    options: dict[str, Any]


class Folder(NamedTuple):
    """A whole problem folder."""

    problem: Problem
    network: Network
    options: dict[str, Any]


# -- saving ---------------------------------------------------------------------------------------


def save_problem(
    path: str | os.PathLike[str],
    problem: Problem,
    network: Network,
    options: Mapping[str, Any] | None = None,
    force: bool = False,
) -> Path:
    """Write a problem folder.

    Parameters
    ----------
    path : path
        The folder to make.
    problem, network : Problem, Network
        What to write; functions that are the user's own Python code cannot be written.
    options : mapping, optional
        Arguments of ``solve`` to keep with the problem: numbers, text, truth values.
    force : bool
        Replace the problem in an existing folder; other files in it stay.

    Examples
    --------
    >>> import tempfile
    >>> from dual2.paper import experiment1
    >>> problem, network, _ = experiment1()
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     where = save_problem(Path(parent) / "exp1", problem, network, {"tol": 1e-8})
    ...     again = load_problem(where)
    >>> again.problem.n, again.network.n, again.options
    (8, 8, {'tol': 1e-08})
    """
    folder = refuse_existing(path, force)
    public = {
        "format": FORMAT,
        "h": encode(problem.h, "h"),
        "network": encode_network(network),
        "options": _options(encode(dict(options or {}), "options")),
    }
    agents = [
        {"format": FORMAT} | encode_agent(agent, f"agent {i}")
        for i, agent in enumerate(problem.agents)
    ]
    if network.n != problem.n:
        raise ProblemError(
            f"The problem has {problem.n} agents but the network has {network.n} nodes."
        )
    _clear(folder)
    for i, document in enumerate(agents):
        small = _size(document) <= SMALL
        name = f"{i}.toml" if small else f"{i}.npz"
        write_document(folder / "agents" / name, document, limit=np.inf if small else 0)
    write_document(folder / "problem.toml", public, limit=SMALL)
    return folder


def _clear(folder: Path) -> None:
    """Remove the problem that is there; problem.toml goes first, it is what makes it one."""
    for name in PUBLIC_FILES:
        (folder / name).unlink(missing_ok=True)
    if (folder / "agents").is_dir():
        shutil.rmtree(folder / "agents")


def _size(value: Any) -> int:
    """How many numbers and words a document has."""
    if isinstance(value, Mapping | list):
        return sum(map(_size, value.values() if isinstance(value, Mapping) else value))
    return value.size if isinstance(value, np.ndarray) else 1


# -- loading --------------------------------------------------------------------------------------


def load_problem(path: str | os.PathLike[str]) -> Folder:
    """Read a whole problem folder: public part and every agent."""
    h, network, options = load_public(path)
    agents = [load_agent(file) for file in agent_files(path, network.n)]
    problem = _explained(Path(path), lambda: Problem(agents, h=h))
    return Folder(problem, network, options)


def load_public(path: str | os.PathLike[str]) -> Public:
    """Read the public part of a problem folder; no agent's file is opened."""
    file = Path(path) / "problem.toml"
    if not file.exists():
        if Path(path).name == file.name:
            raise ProblemError(f"{path} is a file; expected its folder, {Path(path).parent}.")
        raise ProblemError(
            f"{path} is not a problem folder: there is no {file}. Make one with "
            "'dual2 example DIR' or dual2.save_problem."
        )
    document = _read(file, {"h", "network"}, {"options"})
    h = _explained(file, lambda: decode(document["h"], "h"))
    if not isinstance(h, Function):
        raise ProblemError(f"{file}: h is {h!r}: expected a table with an entry 'function'.")
    network = _explained(file, lambda: decode_network(document["network"]))
    return Public(h, network, _explained(file, lambda: _options(document.get("options", {}))))


def _options(found: Any) -> dict[str, Any]:
    """The options of ``solve``, each of a type that it takes."""
    if not isinstance(found, dict):
        raise ProblemError(f"options is {found!r}; expected a table of arguments of solve.")
    for name, value in found.items():
        if name in NO_OPTIONS:
            raise ProblemError(
                f"options.{name} found, which no folder can keep. Give it to solve in Python."
            )
        kinds = OPTIONS.get(name)
        if kinds is not None and type(value) not in kinds:
            wanted = " or ".join(kind.__name__ for kind in kinds)
            raise ProblemError(f"options.{name} is {value!r}; expected {wanted}.")
    return found


def load_agent(path: str | os.PathLike[str]) -> Agent:
    """Read the file of one agent, ``DIR/agents/3.npz`` say; no other file is opened."""
    file = Path(path)
    document = _read(file, {"A", "f"}, {"g"})
    del document["format"]
    return _explained(file, lambda: Agent(**{k: decode(v, k) for k, v in document.items()}))


def load_agents(path: str | os.PathLike[str], numbers: Iterable[int]) -> dict[int, Agent]:
    """Some agents of a problem folder by number; the files of the others need not be there."""
    folder, found = Path(path) / "agents", {}
    for number in numbers:
        files = [folder / f"{number}{suffix}" for suffix in SUFFIXES]
        files = [file for file in files if file.exists()]
        if len(files) != 1:
            there = " and ".join(file.name for file in files) or "no file of it"
            raise ProblemError(
                f"Agent {number}: {folder} has {there}; expected either {number}.npz or "
                f"{number}.toml."
            )
        found[number] = load_agent(files[0])
    return found


def public_digest(path: str | os.PathLike[str]) -> bytes:
    """Hash (16 bytes) of the public files, byte by byte: equal where the public parts are."""
    files = [Path(path) / name for name in PUBLIC_FILES]
    return digest(*(read_bytes(file) if file.exists() else b"" for file in files))


def agent_files(path: str | os.PathLike[str], n: int) -> list[Path]:
    """The files of agents 0 … n-1; an error if one is missing, doubled or too many."""
    folder = Path(path) / "agents"
    found: dict[str, Path] = {}
    for file in sorted(f for f in folder.glob("*") if f.suffix in SUFFIXES):
        if file.stem in found:
            raise ProblemError(
                f"{folder} has both {found[file.stem].name} and {file.name}: remove one of them."
            )
        found[file.stem] = file
    names = [str(i) for i in range(n)]
    missing = [name for name in names if name not in found]
    extra = [file.name for name, file in found.items() if name not in names]
    if missing or extra:
        parts = [f"no file for agent {', '.join(missing)}"] if missing else []
        parts += [f"no node for {', '.join(extra)}"] if extra else []
        raise ProblemError(
            f"{folder}: {' and '.join(parts)}. The network has {counted(n, 'node')}, so that many "
            "files are expected, numbered from 0, each .npz or .toml."
        )
    return [found[name] for name in names]


def _read(file: Path, needed: set[str], allowed: set[str]) -> dict[str, Any]:
    document = read_document(file)
    if document.get("format") != FORMAT:
        raise ProblemError(
            f"{file} has the format version {document.get('format')!r}; this version of dual2 "
            f"reads {FORMAT} (an entry 'format = {FORMAT}')."
        )
    missing, unknown = needed - set(document), set(document) - needed - allowed - {"format"}
    if missing or unknown:
        parts = [f"lacks {', '.join(sorted(missing))}"] if missing else []
        parts += [f"has the unknown entry {', '.join(sorted(unknown))}"] if unknown else []
        raise ProblemError(
            f"{file} {' and '.join(parts)}. Expected: {', '.join(sorted(needed))}; "
            f"optional: {', '.join(sorted(allowed))}."
        )
    return document


def _explained(file: Path, build: Callable[[], T]) -> T:
    """Build an object from a file; an error names the file."""
    try:
        return build()
    except Dual2Error as error:
        raise type(error)(f"{file}: {error}") from error
    except (TypeError, ValueError, LookupError, ArithmeticError, MemoryError) as error:
        raise ProblemError(f"{file}: {type(error).__name__}: {error}") from error
