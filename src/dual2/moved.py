"""Modules that have moved: their old paths work for one release, with a DeprecationWarning.

A finder behind all others of Python's import system is asked only for modules that nobody else
finds, so present paths pay nothing for it.
"""

import importlib
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_GOSSIP = (
    "accuracy admm admm_kernel apapc apapc_kernel id2a idea mixing nedic npga npga_kernel "
    "npga_methods second_dual single_loop"
)
_ALLREDUCE = "cocoa fista sharing sum_loop vector_free"
MOVED = {f"dual2.methods.{name}": f"dual2.methods.gossip.{name}" for name in _GOSSIP.split()}
MOVED |= {f"dual2.methods.{name}": f"dual2.methods.allreduce.{name}" for name in _ALLREDUCE.split()}
_BENCH = (
    "arguments bands benchmark builders case config config_checks costs harness imported latex "
    "peer_problems peer_report peers provenance run_case store study styles summary topologies "
    "workers"
)
_PAPER = {
    "captions": "captions",
    "catalogue": "planned_runs",
    "claims": "claims",
    "exact_linear": "problems.exact_linear",
    "exp1": "problems.elastic_net_regression",
    "exp2": "problems.constrained_regression",
    "exp3": "problems.resource_allocation",
    "experiment": "problems.experiment",
    "figures": "figures",
    "headline": "headline",
    "quadratic_program": "problems.quadratic_program",
    "report": "report",
    "reproduce": "reproduction",
    "verdicts": "verdicts",
}
MOVED |= {f"dual2.experiments.{name}": f"dual2.bench.{name}" for name in _BENCH.split()}
MOVED |= {f"dual2.experiments.{old}": f"dual2.paper.{new}" for old, new in _PAPER.items()}
MOVED |= {
    "dual2.applications.dispatch": "dual2.power",
    "dual2.applications.mpc": "dual2.mpc",
    "dual2.applications.participants": "dual2.participants",
    "dual2.learn.federated": "dual2.learn.vertical",
    "dual2.processes.parties": "dual2.parties",
}
_WITHIN = {
    "commands": "certificates:tls_certificates options:common_options",
    "engine": "gossip:gossip_kernel residual:residual_kernel unowned:packed_args",
    "functions": "block:norms_and_sets regression:logistic_regression",
    "learn": "base:vertical_model growth:separable_classes parties:column_owners",
    "methods.subsolvers": "base:subsolver exact:exact_subproblems",
    "models": "answer:model_answer",
    "mpc": (
        "arguments:controller_arguments figure:simulation_figure reading:plan_inputs "
        "stacked:state_space violated:violated_limits"
    ),
    "network": "reading:topology",
    "power": (
        "case:dispatch checks:dispatch_checks costs:cost_curves frames:data_frames "
        "tables:network_tables units:generators"
    ),
    "problem": "bounds:error_bounds",
    "recognise": "reading:model_reader values:model_values",
    "reference": "atoms:cvxpy_atoms",
    "runtime": "partition:assignment",
    "solving": "schedule:run_schedule",
    "solving.report": "run:run_page",
    "solving.storage": "folder:problem_folder tables:array_tables",
}
"""Modules that have other names in the same package: old name, new name."""
MOVED |= {
    f"dual2.{package}.{old}": f"dual2.{package}.{new}"
    for package, names in _WITHIN.items()
    for old, new in (pair.split(":") for pair in names.split())
}
"""Old paths of packages and modules, and where they are now."""


def present_path(name: str) -> str | None:
    """Where a module is now that was called so; None if it has not moved.

    Examples
    --------
    >>> present_path("dual2.methods.id2a"), present_path("dual2.problem")
    ('dual2.methods.gossip.id2a', None)
    """
    parts = name.split(".")
    for k in range(len(parts), 1, -1):
        new = MOVED.get(".".join(parts[:k]))
        if new is not None:
            return ".".join([new, *parts[k:]])
    return None


class _Redirect(Loader):
    """Gives the module at the present path in the place of the old one."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module at the present path."""
        message = f"{spec.name} has moved to {self.path}; the old path goes with the next release."
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        module = importlib.import_module(self.path)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Give the module its own name back, which Python's import system has overwritten."""
        module.__spec__ = self._spec


class Finder(MetaPathFinder):
    """Finds modules by their old paths."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """A spec that leads to the present path; None for what has not moved."""
        new = present_path(fullname) if fullname.startswith("dual2.") else None
        return None if new is None else ModuleSpec(fullname, _Redirect(new), is_package=True)


def install() -> None:
    """Let old paths be found, once."""
    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.append(Finder())
