"""One case from its problem to a stored run: build, tune, warm up, solve."""

import json
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from typing import Any

from dual2.bench.builders import build_setting
from dual2.bench.case import Case, Setting
from dual2.bench.imported import method_called
from dual2.bench.store import FAILED, SKIPPED, StoredRun
from dual2.bench.topologies import build_network
from dual2.errors import CapabilityError, Dual2Error
from dual2.files import locked
from dual2.kernel_cache import cache_directory
from dual2.methods.method import Method
from dual2.methods.registry import AUTO
from dual2.network import Network
from dual2.solving.result import Result, Status
from dual2.solving.solve import solve
from dual2.solving.tuning import Tuned, tune
from dual2.theory import compare, complexities

WARM_UP = {"max_rounds": 50, "time_limit": 1.0, "record": False, "progress": False}
"""A run before the measured one, so that no kernel is compiled or loaded while the clock runs."""

LIMITS = ("method", "tol", "max_rounds", "time_limit")
"""Arguments of ``solve`` that a search for parameters sets by itself."""

Watch = Callable[[dict[str, Any]], Any]


def run_case(
    case: Case,
    machine: dict[str, Any],
    watch: Watch | None = None,
    *,
    build: Callable[[Case], Setting] = build_setting,
    method: Method | None = None,
) -> StoredRun:
    """Make one run; whatever happens ends in the record, except an interrupt.

    ``case``: what to run; ``machine``: kept with the run; see
    :class:`dual2.bench.store.StoredRun`; ``watch``: ``callback`` of ``solve``: called after
    each stopping test, the clock stopped; ``build``: makes the setting; ``method``: the method, if
    its name does not say which.

    The run is ``SKIPPED`` with the reason if the method cannot solve the problem, ``FAILED`` with
    the message of any other error. An interrupt is raised: half a run is none.

    Examples
    --------
    >>> options = {"n": 4, "network": {"build": "ring"}}
    >>> case = Case("demo", "DCDA", "random", options, {"method": "DCDA", "reduce": False})
    >>> run = run_case(case, {})
    >>> run.status, run.reason.split(":")[0]
    ('SKIPPED', 'DCDA cannot solve this problem')
    """
    setting = None
    try:
        setting = build(case)
        chosen = method or method_called(case.solve.get("method", AUTO))
        return _measured(case, chosen, setting, machine, watch)
    except CapabilityError as error:
        status, reason = SKIPPED, str(error)
    except Exception as error:
        status, reason = FAILED, f"{type(error).__name__}: {error}"
    facts = {} if setting is None else setting.facts
    return StoredRun(case, status, reason, facts=facts, machine=machine)


def _measured(
    case: Case,
    method: Method | str,
    setting: Setting,
    machine: dict[str, Any],
    watch: Watch | None,
) -> StoredRun:
    problem, network = setting.problem, setting.network
    tuned = _tuned(case, method, setting)
    chosen = {**case.solve, "method": method}
    arguments: dict[str, Any] = {"seed": case.seed, **chosen, **(tuned or {})}
    with _alone():
        _whole(solve(problem, network, **{**arguments, **WARM_UP}).status)
    measured = {"reference": setting.reference, "progress": False, "callback": watch}
    begun = time.process_time()
    result = solve(problem, network, **{**arguments, **measured})
    machine = machine | {"processor": time.process_time() - begun}
    _whole(result.status)
    told = {k: list(v) for k, v in result.parameters.items()}
    ended = str(result.status), result.advice, result.seconds
    found = asdict(result.counts), asdict(result.certificate), told, result.versions
    beside = setting.facts, machine, _record(tuned), _predicted(setting, result, arguments)
    return StoredRun(case, *ended, *found, *beside, result.trace)


def _alone() -> AbstractContextManager[None]:
    """One process at a time, so that no kernel is compiled twice; with a warm cache at once."""
    folder = cache_directory()
    return nullcontext() if folder is None else locked(folder / "compiling.lock")


def _tuned(case: Case, method: Method | str, setting: Setting) -> Tuned | None:
    """The search that ``notes["tune"]`` asks for, maybe on a ``network`` of another kind."""
    wishes = dict(case.notes.get("tune", {}))
    if not wishes:
        return None
    other = wishes.pop("network", None)
    fixed = {name: value for name, value in case.solve.items() if name not in LIMITS}
    wishes = {"tol": case.solve.get("tol", 1e-8), "seed": case.seed, **fixed, **wishes}
    if other is None:
        return _searched(setting, setting.network, method, wishes)
    data = {name: value for name, value in case.problem_options.items() if name != "network"}
    name = case.solve.get("method", AUTO)
    key = json.dumps([case.problem, data, other, name, wishes], sort_keys=True)
    if key not in _KNOWN:
        network = build_network(setting.problem.n, other)
        _KNOWN[key] = _searched(setting, network, method, wishes)
    return _KNOWN[key]


_KNOWN: dict[str, Tuned] = {}
"""Searches on a network that is not the case's own: the same for cases that differ in it alone."""


def _searched(
    setting: Setting, network: Network, method: Method | str, wishes: dict[str, Any]
) -> Tuned:
    found = tune(setting.problem, network, method, **wishes)
    _whole(*(trial.status for trial in found.trials))
    return found


def _whole(*statuses: Status) -> None:
    """Half a run is none."""
    if Status.INTERRUPTED in statuses:
        raise KeyboardInterrupt


def _record(tuned: Tuned | None) -> dict[str, Any]:
    if tuned is None:
        return {}
    trials = [asdict(trial) | {"status": str(trial.status)} for trial in tuned.trials]
    kept = {name: getattr(tuned, name) for name in ("summary", "budget", "tol")}
    return kept | {"trials": trials}


def _predicted(setting: Setting, result: Result, arguments: dict[str, Any]) -> dict[str, Any]:
    """What the complexity table says about this run; empty if it has no row for it."""
    rho = arguments.get("rho", "auto")
    try:
        rows = complexities(setting.problem, setting.network, rho=rho)
    except Dual2Error as error:
        return {"reason": str(error)}
    row = compare(rows, result).row
    if row is None:
        return {}
    kinds = ("rounds", "oracle_a", "oracle_b")
    return {
        "row": f"{row.name}, Case {row.case}, {row.assumption}",
        "formulas": dict(zip(kinds, row.formulas, strict=True)),
        **{kind: float(getattr(row, kind)) for kind in kinds},
    }


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def machine_of(workers: int) -> dict[str, Any]:
    """What seconds depend on."""
    threads = os.environ.get("DUAL2_THREADS", "auto")
    return {"workers": workers, "threads": threads, "cores": cores()}
