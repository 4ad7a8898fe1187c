"""Benchmarks as TOML: problems × networks × methods × seeds, read into cases.

::

    title = "Two networks"            # optional
    seeds = [0, 1, 2]                 # of the data; [0] if left out

    [solve]                           # for every run
    tol = 1e-8
    max_rounds = 100_000

    [[problems]]
    name = "net"                      # optional, else the name of the builder
    build = "elastic_net"             # a builder; its arguments follow
    n = 12
    kappa_f = [1, 10, 100]            # a list: one problem for each value

    [[networks]]
    build = "path"

    [[methods]]
    method = "iD2A"                   # arguments of dual2.solve
    rho = 0

    [[studies]]                       # optional: fit cost ∝ κ_f^a
    over = "kappa_f"
    problems = ["net"]

A problem may name the ``networks`` and a method the ``problems`` that it is for; otherwise
everything meets everything. The paper's experiments and problem folders bring their own network
and data: networks and further seeds do not apply to them.
"""

import inspect
import itertools
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from dual2.bench.arguments import Count, Weight, check_table
from dual2.bench.builders import PROBLEMS, fingerprint, user_problem
from dual2.bench.case import Case
from dual2.bench.config_checks import FOR_ALL, FOR_SOME, Checks, Table, Variants
from dual2.bench.imported import (
    code_digests,
    entry_point,
    is_imported,
    is_method,
    method_called,
    search_in,
)
from dual2.bench.topologies import NETWORKS, build_network
from dual2.errors import Dual2Error, unknown_name
from dual2.files import parse_toml, read_text
from dual2.methods.method import Method
from dual2.solving.storage import load_problem
from dual2.solving.tuning import tune

PARTS = ("title", "seeds", "solve", "problems", "networks", "methods", "studies")
"""Keys of a config."""

STUDIED = ("n", "p", "kappa_f", "kappa_C", "kappa_pd", "kappa_h", "kappa_A")
"""Facts of a problem over which a study may fit exponents."""


@dataclass(frozen=True)
class Study:
    """Which runs to fit a power law through."""

    over: str  # the fact on the horizontal axis, one of STUDIED
    problems: tuple[str, ...]  # names of the problem entries


@dataclass(frozen=True)
class Config:
    """A benchmark, ready to run."""

    # name, title: of the file; its heading
    name: str
    title: str
    # every run. notes tell the entry (problem), problem and network.
    cases: tuple[Case, ...]
    studies: tuple[Study, ...] = ()  # what to fit afterwards
    text: str = ""  # the TOML that it was read from
    folder: Path | None = None  # where its paths start; None for one that comes with the package


def shipped_configs() -> list[str]:
    """Names of the configs that come with the package."""
    files = resources.files("dual2.bench").joinpath("configs").iterdir()
    return sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml"))


def read_config(path: str | os.PathLike[str]) -> Config:
    """Read a config file, or one that comes with the package by its name.

    Examples
    --------
    >>> config = read_config("scaling")
    >>> config.title, sorted({study.over for study in config.studies})
    ('Scaling study', ['kappa_C', 'kappa_f', 'n', 'p'])
    """
    file = Path(path)
    if not file.suffix and not file.is_file() and str(path) in shipped_configs():
        source = resources.files("dual2.bench") / "configs" / f"{path}.toml"
        return replace(parse_config(source.read_text(encoding="utf-8"), str(path)), folder=None)
    try:
        text = read_text(file)
    except Dual2Error as error:
        raise Dual2Error(
            f"{error} Expected a TOML file, or a name: {', '.join(shipped_configs())}, peers."
        ) from error
    return parse_config(text, str(path), file.parent)


def parse_config(text: str, name: str, folder: Path = Path()) -> Config:
    """Cases and studies of a config.

    ``text``: TOML; ``name``: what errors call it: a path, or any other name; ``folder``: where the
    paths of problem folders start.
    """
    found = _ConfigReader(name, folder, parse_toml(text, name)).config()
    return replace(found, text=text, folder=folder)


class _ConfigReader(Checks):
    """Reads a document part by part."""

    def __init__(self, name: str, folder: Path, document: Table) -> None:
        super().__init__(name, document)
        self.folder = folder
        search_in(folder)
        self.explain("", check_table, document, dict.fromkeys(PARTS, Any))
        for part in _NAMED:
            for where, table in self.entries(part, False):
                self.explain(where, _resolve, table, part)

    def config(self) -> Config:
        """The whole config."""
        networks, problems = self.networks(), self.problems()
        names = [entry["name"] for entry in problems]
        methods = self.methods(names)
        cases = [case for problem in problems for case in self.cases(problem, networks, methods)]
        name = Path(self.name).stem
        title = self.text(self.document, "title", "", name)
        studies = tuple(self.study(k, table, names) for k, table in self.entries("studies", False))
        return Config(name, title, tuple(cases), studies)

    # -- parts ------------------------------------------------------------------------------

    def networks(self) -> dict[str, Variants]:
        """Name of an entry → its variants."""
        found: dict[str, Variants] = {}
        for where, table in self.entries("networks", False):
            name, variants = self.variants(where, table, NETWORKS, found)
            build = {"build": table["build"]}
            found[name] = [(label, build | options) for label, options in variants]
        return found

    def problems(self) -> list[Table]:
        found: dict[str, Table] = {}
        for where, table in self.entries("problems"):
            build = self.text(table, "build", where)
            free = "network" in self.explain(where, PROBLEMS.arguments, build)[0]
            more = ("networks",) if free else ()
            name, variants = self.variants(where, table, PROBLEMS, found, more)
            for _, options in variants:
                if "path" in options:
                    options["path"] = str((self.folder / options["path"]).resolve())
            place = {"where": where, "networks": table.get("networks")}
            found[name] = {"name": name, "build": build, "free": free, "variants": variants} | place
        return list(found.values())

    def methods(self, problems: list[str]) -> list[Table]:
        common = self.document.get("solve", {})
        self.explain("[solve]", check_table, common, FOR_ALL)
        found: dict[str, Table] = {}
        for where, table in self.entries("methods"):
            method = self.explain(where, method_called, self.text(table, "method", where))
            free: tuple[str, ...] = ("method", "label", "problems")
            if isinstance(method, Method):
                own = [name for names in method.sources for name in names.split(", ")]
                free = (*free, "tune", *FOR_SOME, *own)
            self.explain(where, check_table, table, dict.fromkeys(free, Any) | FOR_ALL)
            name = method.name if isinstance(method, Method) else method
            solve = {k: v for k, v in table.items() if k not in ("label", "problems", "tune")}
            self.parameters(solve, name, where)
            short = solve | {"method": name} if is_imported(solve["method"]) else solve
            label = self.fresh(self.text(table, "label", where, _label(short)), found, where)
            notes: Table = {}
            if isinstance(method, Method) and method.reconstructed:
                notes["reconstructed"] = True
            if "tune" in table:
                self.explain(f"{where}, tune", check_table, table["tune"], _tuning())
                notes["tune"] = table["tune"] or {"budget": 2000}
            wanted = self.names(table.get("problems"), problems, "problem", where)
            own = {"label": label, "solve": common | solve, "notes": notes, "problems": wanted}
            found[label] = own
        return list(found.values())

    def study(self, where: str, table: Table, problems: list[str]) -> Study:
        self.explain(where, check_table, table, {"over": str, "problems": Any}, ("over",))
        if table["over"] not in STUDIED:
            self.fail(where, unknown_name("quantity", table["over"], STUDIED))
        named = self.names(table.get("problems"), problems, "problem", where)
        return Study(table["over"], tuple(named))

    def cases(
        self, problem: Table, networks: dict[str, Variants], methods: list[Table]
    ) -> Iterable[Case]:
        """The cells of one problem entry."""
        seeds, settings = self.seeds(), list(self.settings(problem, networks))
        chosen = [method for method in methods if problem["name"] in method["problems"]]
        for (group, options, notes), method in itertools.product(settings, chosen):
            for seed in seeds if problem["free"] else seeds[:1]:
                told = {"entry": problem["name"], **notes, **method["notes"]}
                solved = method["label"], problem["build"], options, method["solve"]
                place = options.get("network", {}).get("build", "")
                code = code_digests([problem["build"], place, method["solve"]["method"]])
                told |= {"code": code} if code else {}
                yield Case(group, *solved, seed, told)

    def settings(
        self, problem: Table, networks: dict[str, Variants]
    ) -> Iterable[tuple[str, Table, Table]]:
        """Group, arguments of the builder and notes of each problem on each network."""
        if not problem["free"]:
            for name, options in problem["variants"]:
                notes = {"problem": name, "network": "its own"}
                if problem["build"] == "folder":
                    found = self.explain(problem["where"], load_problem, options["path"])
                    notes["data"] = fingerprint(found.problem)
                yield name, options, notes
            return
        if not networks:
            self.fail(problem["where"], "this problem needs at least one entry in [[networks]].")
        wanted = self.names(problem["networks"], list(networks), "network", problem["where"])
        places = [variant for name in wanted for variant in networks[name]]
        for (name, options), (place, network) in itertools.product(problem["variants"], places):
            where = f"{problem['where']} on {place}"
            n = self.explain(problem["where"], self.agents, problem["build"], options)
            self.explain(where, _buildable, n, json.dumps(network))
            notes = {"problem": name, "network": place}
            yield f"{name} on {place}", options | {"network": network}, notes

    def agents(self, build: str, options: Table) -> int:
        """How many agents a problem has; one of the user's own is built once to see."""
        if is_imported(build):
            return _size(build, self.seeds()[0], json.dumps(options))
        default = inspect.signature(PROBLEMS.find(build)).parameters["n"].default
        return options.get("n", default)

    def seeds(self) -> list[int]:
        seeds = self.document.get("seeds", [0])
        whole = isinstance(seeds, list) and all(type(s) is int and s >= 0 for s in seeds)
        if not whole or not seeds:
            self.fail("seeds", f"{seeds!r} found; expected a list of whole numbers ≥ 0.")
        return list(dict.fromkeys(seeds))


_NAMED: dict[str, tuple[str, Callable[[str], bool]]] = {
    "methods": ("method", is_method),
    "problems": ("build", PROBLEMS.known.__contains__),
    "networks": ("build", NETWORKS.known.__contains__),
}
"""Parts of a config, the entry that names something, and whether a name is one of ours."""


def _resolve(table: Table, part: str) -> None:
    """Replace an entry point's name by ``module:attribute``, so that every process finds it."""
    key, ours = _NAMED[part]
    name = table.get(key)
    if isinstance(name, str) and not is_imported(name) and not ours(name):
        if found := entry_point(part, name):
            table[key] = found
            if key == "build":
                table.setdefault("name", name)


@cache
def _buildable(n: int, network: str) -> None:
    """Build a network once, to see whether there is one of n agents."""
    build_network(n, **json.loads(network))


@cache
def _size(build: str, seed: int, options: str) -> int:
    """Agents of a problem of the user's own."""
    return user_problem(build, seed, json.loads(options)).n


def _tuning() -> Table:
    """What may be said of a search: arguments of ``tune`` after the problem, network and method."""
    names = [name for name in inspect.signature(tune).parameters if name != "fixed"][3:]
    return dict.fromkeys(names, Any) | {"tol": Weight, "budget": Count}


def _label(solve: Table) -> str:
    """Method and subsolver, then what else was chosen."""
    names = [str(solve[key]) for key in ("method", "subsolver") if key in solve]
    rest = {k: v for k, v in solve.items() if k not in ("method", "subsolver")}
    words = [f"{'ρ' if key == 'rho' else key} = {value}" for key, value in rest.items()]
    return ", ".join(["-".join(names), *words])
