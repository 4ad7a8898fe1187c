"""``study.toml`` of a learning study: what all parties have agreed on, the same bytes everywhere.

::

    run = "stroke-2026-03"

    [learn]
    model = "LogisticRegression"      # an estimator of dual2.learn
    options = { C = 0.5 }             # its parameters
    standardize = true                # numbers, by each party alone
    network = "star"                  # around the label's holder; or path, cycle, complete, pairs
    tol = 1e-8

    [rows]
    policy = "psi"                    # or "keyed hashes", "given"
    id = "patient"                    # name of the column
    type = "text"                     # or "integer"
    minimum = 50                      # fewer common rows are refused
    maximum = 1000000                 # most ids of a party
    ratio = 10.0                      # most ids of another party, as a multiple of one's own
    attempts = 20                     # most alignments of the same ids

    [labels]
    holder = "hospital"
    private = true                    # labels stay here; or epsilon = 2.0, accept_leakage = true
    budget = 2.0                      # most ε that earlier studies and this one may show of a label

    [predictions]
    to = ["hospital"]

    [search]                          # optional: cross-validation
    parameter = "C"
    values = [0.1, 1.0, 10.0]
    folds = 5
    seed = 0

    [evaluation]                      # optional: figures of rows that training has not seen
    folds = 5                         # or held_out = 0.2
    seed = 0
    standard_errors = true            # of models without a penalty

    [[parties]]
    name = "hospital"
    certificate = "hospital.pem"
    fingerprint = "b52c…"
"""

import hashlib
import math
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import networkx as nx

from dual2.errors import Dual2Error, unknown_name
from dual2.files import read_bytes, read_toml
from dual2.functions import Zero
from dual2.learn.classification import VerticalClassifier
from dual2.learn.column_owners import GRAPHS
from dual2.learn.training_methods import needs_curvature
from dual2.learn.vertical.learning_terms import (
    INTEGER,
    MODELS,
    POLICIES,
    TEXT,
    EvaluationPlan,
    Learning,
    RowPolicy,
    Search,
)
from dual2.learn.vertical.study_rules import (
    check_class_weight,
    check_evaluation,
    check_links,
    check_one_norm,
    check_ordinal,
    check_private,
)
from dual2.methods.registry import AUTO, METHODS, find_method
from dual2.network import Network
from dual2.parties.study import (
    Member,
    Study,
    check_members,
    entries,
    read_carrier,
    read_members,
    shows_matrices,
)
from dual2.runtime.peers.frames import MARK
from dual2.solving.storage.problem_folder import Public

MAX_SUMS = 150
"""Most sums of Newton's method for one model."""
_ELSEWHERE = {"parties", "network", "method", "runtime", "warm_start", "standardize", "tol"}
_ELSEWHERE |= {"max_iter"}


@dataclass(frozen=True)
class LearnStudy(Study):
    """A study that was read and checked; ``phase`` is which of its runs is meant."""

    learning: Learning
    phase: str = "fit"

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the study's file."""
        return hashlib.sha256(read_bytes(self.file)).digest()

    @property
    def run(self) -> bytes:
        """16 bytes that name this run of this study."""
        text = f"{self.name}\0{self.phase}\0".encode() + self.digest
        return hashlib.blake2b(text, digest_size=MARK).digest()

    def at(self, phase: str) -> "LearnStudy":
        """The same study, another of its runs."""
        return replace(self, phase=phase)


def read_learn_study(file: Path) -> LearnStudy:
    """Read a learning study; an error says what is wrong with it."""
    where = str(file)
    needed = {"run": str, "parties": list, "learn": dict, "labels": dict}
    optional = {"sums": dict, "carrier": str, "rows": dict, "predictions": dict, "search": dict}
    optional |= {"evaluation": dict}
    table = entries(read_toml(file), where, needed, optional)
    members = read_members(table["parties"], where, file.parent)
    sums = entries(table.get("sums", {}), f"{where}: sums", {}, {"masked": bool, "matrices": bool})
    kinds = {"options": dict, "standardize": bool, "tol": float, "method": str}
    graph = table["learn"].pop("network", "star")
    learn = entries(table["learn"], f"{where}: learn", {"model": str}, kinds)
    learning = _learning(table, learn, [member.name for member in members], where)
    options = _method(learn.get("method", "auto"), where, sums.get("matrices", False))
    check_one_norm(learning, where, sums.get("matrices", False))
    study = LearnStudy(
        file,
        table["run"],
        file.parent,
        members,
        sums.get("masked", True),
        sums.get("matrices", False),
        Public(Zero(), _network(graph, members, learning.holder, where), options),
        read_carrier(table, where),
        learning,
    )
    check_members(study, where)
    check_links(study, learning, where)
    check_private(study, learning, where)
    study.public.options["tol"] = learning.tol
    return study


def _learning(table: dict[str, Any], learn: dict[str, Any], names: list[str], where: str) -> Any:
    kinds = {"accept_leakage": bool, "epsilon": float, "budget": float, "private": bool}
    labels = entries(table["labels"], f"{where}: labels", {"holder": str}, kinds)
    told = entries(table.get("predictions", {}), f"{where}: predictions", {}, {"to": list})
    model = str(learn["model"]).removeprefix("Vertical")
    if model not in MODELS:
        raise Dual2Error(f"{where}: learn.model: {unknown_name('model', model, MODELS)}")
    tol = float(learn.get("tol", 1e-8))
    if not 1e-14 <= tol <= 0.1:
        raise Dual2Error(f"{where}: learn.tol is {tol:g}; expected a number from 1e-14 to 0.1.")
    holder = _number(labels["holder"], names, f"{where}: labels.holder")
    found = Learning(
        model,
        dict(learn.get("options", {})),
        learn.get("standardize", True),
        tol,
        _rows(table.get("rows", {}), where),
        holder,
        _epsilon(labels, model, where),
        labels.get("accept_leakage", False),
        tuple(_number(name, names, f"{where}: predictions.to") for name in told.get("to", []))
        or (holder,),
        budget=_budget(labels, where),
        private=labels.get("private", False),
        automatic=str(learn.get("method", "auto")).lower() == AUTO,
    )
    _check_options(found, where)
    check_ordinal(found, where)
    if "evaluation" in table:
        found = replace(found, evaluation=_evaluation(table["evaluation"], where))
        check_evaluation(found, where)
    if "search" in table:
        found = replace(found, search=_search(table["search"], found, where))
    return found


def _number(name: Any, names: list[str], where: str) -> int:
    if name not in names:
        raise Dual2Error(f"{where}: {unknown_name('party', str(name), names)}")
    return names.index(name)


def _rows(table: dict[str, Any], where: str) -> RowPolicy:
    kinds: dict[str, type] = {"policy": str, "id": str, "type": str, "ratio": float}
    kinds |= dict.fromkeys(("minimum", "maximum", "attempts"), int)
    found = RowPolicy(**entries(table, f"{where}: rows", {}, kinds))
    for name, value, known in (
        ("policy", found.policy, POLICIES),
        ("type", found.type, (TEXT, INTEGER)),
    ):
        if value not in known:
            raise Dual2Error(f"{where}: rows.{unknown_name(name, value, known)}")
    for name in ("minimum", "maximum", "ratio", "attempts"):
        value = getattr(found, name)
        if not 1 <= value < math.inf:
            raise Dual2Error(f"{where}: rows.{name} is {value}; expected at least 1.")
    if found.maximum < found.minimum:
        raise Dual2Error(
            f"{where}: rows.maximum is {found.maximum}; expected at least rows.minimum, "
            f"{found.minimum}."
        )
    return found


def _epsilon(labels: dict[str, Any], model: str, where: str) -> float | None:
    if "epsilon" not in labels:
        return None
    epsilon = float(labels["epsilon"])
    if not 0 < epsilon < math.inf:
        raise Dual2Error(f"{where}: labels.epsilon is {epsilon:g}; expected a number > 0.")
    if not issubclass(MODELS[model], VerticalClassifier):
        raise Dual2Error(
            f"{where}: labels.epsilon is for classes; {model} has real targets, which randomised "
            "response does not protect. Remove it and decide on accept_leakage = true."
        )
    return epsilon


def _budget(labels: dict[str, Any], where: str) -> float | None:
    """The budget of the labels' noise, which must leave room for this study."""
    if "budget" not in labels:
        return None
    budget, epsilon = float(labels["budget"]), float(labels.get("epsilon", math.inf))
    if not epsilon <= budget < math.inf:
        raise Dual2Error(
            f"{where}: labels.budget is {budget:g}; expected a number of at least labels.epsilon."
        )
    return budget


def _check_options(found: Learning, where: str) -> None:
    """Refuse options that the estimator does not have or does not accept."""
    known = sorted(set(MODELS[found.model]().get_params()) - _ELSEWHERE)
    for name in found.options:
        if name not in known:
            raise Dual2Error(f"{where}: learn.options.{unknown_name('option', name, known)}")
    check_class_weight(found, where)
    try:
        found.estimator()._penalty()
    except (Dual2Error, TypeError) as error:
        raise Dual2Error(f"{where}: learn.options: {error}") from error


def _search(table: dict[str, Any], found: Learning, where: str) -> Search:
    kinds = {"folds": int, "seed": int}
    needed = {"parameter": str, "values": list}
    search = Search(**entries(table, f"{where}: search", needed, kinds))
    search = replace(search, values=tuple(search.values))
    if not all(isinstance(v, int | float) and not isinstance(v, bool) for v in search.values):
        raise Dual2Error(f"{where}: search.values: expected numbers.")
    if not search.values or search.folds < 2 or search.seed < 0:
        raise Dual2Error(f"{where}: search needs values, folds of at least 2, and a seed ≥ 0.")
    for value in search.values:
        options = found.options | {search.parameter: value}
        _check_options(replace(found, options=options), f"{where}: search")
    return search


def _evaluation(table: dict[str, Any], where: str) -> EvaluationPlan:
    kinds = {"held_out": float, "folds": int, "seed": int, "standard_errors": bool}
    found = EvaluationPlan(**entries(table, f"{where}: evaluation", {}, kinds))
    if not 0.0 <= found.held_out < 1.0 or found.folds == 1 or min(found.folds, found.seed) < 0:
        raise Dual2Error(
            f"{where}: evaluation: expected held_out from 0 to below 1, folds of at least 2, and a "
            "seed ≥ 0."
        )
    if found.held_out and found.folds:
        raise Dual2Error(f"{where}: evaluation has held_out and folds; expected one of the two.")
    return found


def _method(name: str, where: str, matrices: bool) -> dict[str, Any]:
    """Method and its parameters, as options of ``solve``."""
    if name.lower() == AUTO:
        return {"method": "Newton", "mode": "primal", "max_sums": MAX_SUMS}
    method = find_method(name)
    if needs_curvature(method):
        fit = [m.name for m in METHODS.values() if not needs_curvature(m)]
        raise Dual2Error(
            f"{where}: learn.method: {method.name} needs a quadratic in every coefficient, which "
            f"models do not have. Expected auto or one of {', '.join(fit)}."
        )
    if shows_matrices(method.name, {}) and not matrices:
        raise Dual2Error(
            f"{where}: learn.method: {method.name} sums p × p matrices, whose differences can show "
            "a column of somebody's data. Use auto, or allow it with sums.matrices = true."
        )
    return {"method": method.name}


def _network(asked: Any, members: tuple[Member, ...], holder: int, where: str) -> Network:
    names = [member.name for member in members]
    if isinstance(asked, list):
        pairs = [pair for pair in asked if isinstance(pair, list) and len(pair) == 2]
        if len(pairs) < len(asked) or not pairs:
            raise Dual2Error(f'{where}: learn.network: expected pairs of names, [["a", "b"], …].')
        graph = nx.empty_graph(len(names))
        for pair in pairs:
            graph.add_edge(*(_number(one, names, f"{where}: learn.network") for one in pair))
        return Network(graph)
    if asked == "star":
        return Network([(holder, i) for i in range(len(names)) if i != holder])
    if asked not in GRAPHS:
        raise Dual2Error(f"{where}: learn.{unknown_name('network', str(asked), GRAPHS)}")
    return Network(GRAPHS[asked](len(names)))
