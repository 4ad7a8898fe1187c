"""Problem builders: a name and its arguments in, a :class:`Setting` out."""

import functools
import hashlib
import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import numpy as np

from dual2.bench.arguments import Builders, Range, Size, Weight
from dual2.bench.case import Case, Setting
from dual2.bench.imported import call, find_function, hints_of
from dual2.bench.peer_problems import MAKERS
from dual2.bench.topologies import build_network
from dual2.errors import ProblemError
from dual2.functions import (
    Function,
    HuberLoss,
    IndicatorAtMost,
    IndicatorBox,
    IndicatorPoint,
    L1Norm,
    Quadratic,
    SquaredLoss,
    Zero,
)
from dual2.network import Network
from dual2.paper.problems.constrained_regression import experiment2
from dual2.paper.problems.elastic_net_regression import experiment1
from dual2.paper.problems.experiment import Experiment
from dual2.paper.problems.resource_allocation import experiment3
from dual2.problem import Agent, Problem
from dual2.solving.storage import load_problem, to_json
from dual2.solving.storage.codec import encode, encode_agent
from dual2.theory import condition_numbers

Rng = np.random.Generator
Ratio = Annotated[float, Range(1)]

G: dict[str, Function] = {"zero": Zero(), "l1": L1Norm(0.3), "box": IndicatorBox(-2.0, 2.0)}
"""The g_i that ``random`` offers."""

H: dict[str, Callable[[Rng, np.ndarray], Function]] = {
    "squared": lambda rng, s: SquaredLoss(s + rng.standard_normal(len(s))),
    "huber": lambda rng, s: HuberLoss(s + rng.standard_normal(len(s)), 0.5),
    "point": lambda rng, s: IndicatorPoint(s),
    "at_most": lambda rng, s: IndicatorAtMost(s + 0.1),
}
"""The h that ``random`` offers, each around a point that the agents can produce."""


def random(
    seed: int,
    network: dict[str, Any],
    n: Size = 8,
    p: Size = 5,
    d: Size = 3,
    kappa_f: Ratio = 10.0,
    g: Annotated[str, tuple(G)] = "l1",
    h: Annotated[str, tuple(H)] = "squared",
    reference: bool = False,
) -> Setting:
    """Quadratic f_i with curvatures from 1 to κ_f, normal A_i, and a choice of g and h.

    ``seed``: of the data; ``network``: ``build`` and the arguments of
    :func:`dual2.bench.topologies.build_network`; ``n``, ``p``, ``d``: agents, length of the
    coupling, unknowns of each agent; ``kappa_f``: L_f/μ_f, met exactly if d ≥ 2; ``g``, ``h``: keys
    of :data:`G` and :data:`H`; ``reference``: whether to solve centrally first, so that traces have
    a gap (extra ``reference``).
    """
    rng = np.random.default_rng([seed, 61])
    agents, s = [], np.zeros(p)
    for _ in range(n):
        basis = np.linalg.qr(rng.standard_normal((d, d)))[0]
        P = (basis * _curvatures(rng, d, kappa_f)) @ basis.T
        P, target = (P + P.T) / 2, rng.standard_normal(d)
        A = rng.standard_normal((p, d)) / np.sqrt(n * d)
        s += A @ rng.uniform(-1, 1, d)
        agents.append(Agent(A, Quadratic(P, -P @ target), G[g]))
    return _setting(Problem(agents, H[h](rng, s)), build_network(n, **network), reference)


def elastic_net(
    seed: int,
    network: dict[str, Any],
    n: Size = 8,
    p: Size = 20,
    d: Size = 2,
    kappa_f: Ratio = 1.0,
    l1: Weight = 0.01,
    l2: Weight = 0.1,
    noise: Weight = 0.1,
    reference: bool = False,
) -> Setting:
    """Elastic net regression, d features with each of n agents, p samples.

    minimise Σ_i ½x_iᵀD_i x_i + l1·|x_i|₁ + |Σ_i X_i x_i - y|²/(2p), D_i diagonal with entries from
    l2 to l2·κ_f; half of the true coefficients are zero.

    ``seed``, ``network``, ``n``, ``p``, ``d``, ``reference``: as for :func:`random`; ``kappa_f``:
    ratio of the largest to the smallest ridge weight; 1 is the usual elastic net; ``l1``, ``l2``:
    weights of the penalty; ``noise``: standard deviation of what is added to the target.
    """
    rng = np.random.default_rng([seed, 62])
    X = rng.standard_normal((p, n * d))
    truth = rng.standard_normal(n * d) * (rng.random(n * d) < 0.5)
    y = X @ truth + noise * rng.standard_normal(p)
    agents = [
        Agent(block, Quadratic(l2 * _curvatures(rng, d, kappa_f)), L1Norm(l1))
        for block in np.split(X, n, axis=1)
    ]
    problem = Problem(agents, SquaredLoss(y, scale=1 / p))
    return _setting(problem, build_network(n, **network), reference)


def folder(seed: int, path: str) -> Setting:
    """The problem in a folder, with its own network; its options of ``solve`` are not used."""
    problem, network, _ = load_problem(path)
    return _setting(problem, network, False)


def exp1(seed: int) -> Setting:
    """Experiment I of the paper; nothing in it depends on the seed, as in the other two."""
    return _paper(experiment1())


def exp2(seed: int, active: bool = False) -> Setting:
    """Experiment II of the paper, as printed or with constraints that bind."""
    return _paper(experiment2(active))


def exp3(seed: int, active: bool = False) -> Setting:
    """Experiment III of the paper, as printed or with a coupling that binds."""
    return _paper(experiment3(active))


def _paper(found: Experiment) -> Setting:
    facts = describe(found.problem, found.network) | found.facts
    return Setting(found.problem, found.network, found.reference, facts)


def user_problem(name: str, seed: int, options: Mapping[str, Any]) -> Problem:
    """What a function of the user's makes, if it is a problem."""
    found = call(name, find_function(name, "seed"), seed, options)
    if not isinstance(found, Problem):
        raise ProblemError(f"{name} returned a {type(found).__name__}; expected a dual2.Problem.")
    return found


def _of_user(make: Callable[..., Any], name: str) -> Callable[..., Setting]:
    """A builder from a function of the user's."""

    def checked(seed: int, **options: Any) -> Problem:
        return user_problem(name, seed, options)

    functools.update_wrapper(checked, make)
    return _on_network(checked)


def _on_network(make: Callable[..., Problem]) -> Callable[..., Setting]:
    """A builder with a network from a maker of problems, whose arguments stay as they are."""

    def build(seed: int, network: dict[str, Any], **options: Any) -> Setting:
        found = make(seed, **options)
        return _setting(found, build_network(found.n, **network), False)

    own = inspect.signature(make)
    place = inspect.Parameter("network", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    first, *rest = own.parameters.values()
    build.__signature__ = own.replace(  # pyright: ignore[reportFunctionMemberAccess]
        parameters=[first, place.replace(annotation=dict[str, Any]), *rest],
        return_annotation=Setting,
    )
    build.__annotations__ = hints_of(make) | {"network": dict[str, Any], "return": Setting}
    build.__name__, build.__doc__ = getattr(make, "__name__", "problem"), make.__doc__
    return build


BUILDERS: dict[str, Callable[..., Setting]] = {
    "exp1": exp1,
    "exp2": exp2,
    "exp3": exp3,
    "random": random,
    "elastic_net": elastic_net,
    "folder": folder,
    **{name: _on_network(make) for name, make in MAKERS.items()},
}
"""Each takes the seed first, then the case's ``problem_options``."""

PROBLEMS = Builders("problem", BUILDERS, "seed", ProblemError, _of_user)
"""The same with a check of the arguments."""


def build_setting(case: Case) -> Setting:
    """Problem, network, reference and facts of a case.

    Examples
    --------
    >>> case = Case("demo", "iD2A", "random", {"n": 4, "network": {"build": "ring"}})
    >>> setting = build_setting(case)
    >>> setting.problem.n, setting.facts["kappa_C"], setting.facts["kappa_f"]
    (4, 2.0, 10.0)
    """
    return PROBLEMS.build(case.problem, case.seed, case.problem_options)


def describe(problem: Problem, network: Network) -> dict[str, Any]:
    """Facts of any problem on its network: sizes, edges, condition numbers, a hash of the data."""
    numbers = condition_numbers(problem, network)
    names = ("kappa_C", "kappa_f", "kappa_pd", "kappa_h", "kappa_A", "kappa_A_rho")
    return {
        "n": problem.n,
        "p": problem.p,
        "dims": list(problem.dims),
        "edges": network.edges.tolist(),
        **{name: float(getattr(numbers, name)) for name in names},
        "data": fingerprint(problem),
    }


def fingerprint(problem: Problem) -> str:
    """Hash of the problem's data, as a problem folder would hold them."""
    digest = hashlib.blake2b(digest_size=8)
    try:
        parts = [encode_agent(agent, f"agent {i}") for i, agent in enumerate(problem.agents)]
        for part in (*parts, encode(problem.h, "h")):
            digest.update(to_json(part).encode())
    except ProblemError:
        return "none: some function is Python code"
    return digest.hexdigest()


def _setting(problem: Problem, network: Network, reference: bool) -> Setting:
    facts = describe(problem, network)
    if not reference:
        return Setting(problem, network, None, facts)
    from dual2.reference import solve_reference

    found = solve_reference(problem)
    return Setting(problem, network, found.x, facts | {"reference_kkt": found.kkt})


def _curvatures(rng: Rng, d: int, kappa: float) -> np.ndarray:
    """d numbers from 1 to kappa, log-uniform, both ends among them if d ≥ 2."""
    return np.concatenate([[kappa, 1.0], kappa ** rng.random(max(d - 2, 0))])[:d]
