"""``method="auto"``: which method it is, why, and that the run is that method's."""

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest

import dual2 as d2
from dual2.methods import Settings
from dual2.methods.run_status import RunStatus
from dual2.runtime import local_problem
from dual2.solving.choice import CANDIDATES, MethodChoice, Size, _by_cost, choose, measure
from dual2.solving.continuation import Candidates
from dual2.solving.progress import Bar
from dual2.solving.result import Certificate, Counts, Result, Status

PATH = d2.Network(nx.path_graph(4))
SIZE = Size(8, 20, 4, 1e-8, 0, 0, 9, 0.0, 1.0)
FLAT = d2.Smooth(lambda x: np.ones(3), mu=0.0, L=1.0, value=lambda x: float(x.sum()))
MUTE = d2.Smooth(lambda x: 2.0 * x, mu=2.0, L=2.0)
OWN = d2.Smooth(lambda x: 2.0 * x, mu=2.0, L=2.0, value=lambda x: float(x @ x))


def made(f=None, g=None, h=None, A=None, n=4):
    A = np.ones((2, 3)) if A is None else A
    agents = [d2.Agent(A, f or d2.SquaredNorm(1.0), g or d2.L1Norm(0.1)) for _ in range(n)]
    return d2.Problem(agents, h or d2.IndicatorPoint(np.ones(A.shape[0])))


def chosen(problem, settings=None, **more):
    share = local_problem(problem, PATH)
    return choose(share, PATH, settings or Settings(), 1e-8, **more)


@pytest.mark.parametrize(
    "problem, method, why",
    [
        (made(), "Newton", "4 agents, 2 rows, 12 variables, tree of height 2"),
        (made(f=OWN), "L-BFGS", "4 agents of 4 with a function without derivatives"),
        (made(f=MUTE), "iD2A", "not L-BFGS: 4 functions without values"),
        (
            made(f=d2.Quadratic(np.zeros(3), np.ones(3)), g=d2.IndicatorBox(0, 1)),
            "interior-point",
            "4 without strong convexity; predicted interior-point about 180 rounds",
        ),
        (
            made(h=d2.Proximable(lambda v, t: v / (1 + t), value=lambda z: z @ z / 2)),
            "L-BFGS",
            "the prox of h has no derivative",
        ),
        (made(A=np.ones((2001, 1)), h=d2.L2Norm(1.0)), "iD2A", "2001 rows, more than 2000"),
        (made(A=np.ones((2001, 1))), "Newton", "2001 rows"),
        (made(f=FLAT, g=d2.IndicatorBox(-1, 1)), "L-BFGS", "4 without strong convexity"),
    ],
    ids=[
        "plain",
        "user's f",
        "user's f without values",
        "flat",
        "user's h",
        "many rows",
        "many rows of a separable loss",
        "user's flat f",
    ],
)
def test_choice_and_its_reason(problem, method, why):
    found = chosen(problem)
    assert found.method.name == method
    assert found.reason.startswith(f"{method}, ") and why in found.reason


def test_forecasts_grow_as_they_should():
    newton, gossip = (row.predict for row in CANDIDATES[:2])
    assert newton(SIZE).rounds == 8 * 2 * 4
    assert newton(replace(SIZE, p=500)).numbers > 500**2 / 2
    assert gossip(replace(SIZE, condition=2500.0)).rounds == pytest.approx(10 * gossip(SIZE).rounds)
    assert gossip(replace(SIZE, tol=1e-4)).rounds == pytest.approx(gossip(SIZE).rounds / 2)


@pytest.mark.parametrize(
    "change, method",
    [
        ({"p": 500}, "Newton"),
        ({"p": 2000}, "iD2A"),
        ({"p": 2000, "condition": 1e3}, "Newton"),  # the curvature sum is affordable
        ({"p": 1000, "flat": 1, "weak": 1}, "interior-point"),
        ({"p": 1000, "flat": 1}, "Newton"),  # the curvature of g is enough
        ({"p": 1000, "flat": 1, "weak": 1, "formless": 1}, "L-BFGS"),
        ({"p": 20_000, "primal": True}, "Newton"),
        ({"p": 20_000}, "iD2A"),
        ({"local": 1e12}, "iD2A"),
        ({"local": 1e12, "flat": 1, "weak": 1}, "interior-point"),
        ({"local": 1e12, "flat": 1, "weak": 1, "formless": 1}, "L-BFGS"),
        ({"local": 1e12, "flat": 1}, "Newton"),
        ({"height": 0, "n": 1}, "Newton"),
        ({"underived": 1, "formless": 1, "tol": 1e-3}, "L-BFGS"),  # fewer digits help both
        ({"underived": 1, "formless": 1, "p": 900}, "L-BFGS"),
        ({"underived": 1, "flat": 1, "weak": 1}, "interior-point"),
        ({"underived": 1, "flat": 1, "weak": 1, "formless": 1}, "L-BFGS"),
        ({"underived": 1, "flat": 1, "weak": 1, "unvalued": 1, "formless": 1}, "iD2A"),
    ],
    ids=str,
)
def test_rule(change, method):
    assert _by_cost(replace(SIZE, **change)).method.name == method


def test_what_is_said_of_a_method_names_it():
    problem = made()
    assert chosen(problem, Settings(subsolver="iDAPG")).method.name == "iD2A"
    assert chosen(problem, Settings(parameters={"max_sums": 5})).method.name == "Newton"
    assert d2.solve(problem, PATH, rho=2.0, tol=1e-4).parameters["method"][0] == "iD2A"
    assert chosen(problem, Settings(parameters={"cost": "computation"})).method.name == "iD2A"


@pytest.mark.parametrize(
    "options, said",
    [
        ({"stepp": 1}, r"^Unknown option 'stepp'\. Did you mean 'step' \(of Nedic\)"),
        (
            {"max_round": 1},
            r"^Unknown option 'max_round'\. Did you mean 'max_rounds' \(of solve itself",
        ),
        ({"rho": 1.0, "gama": 3.0}, r"Did you mean 'gamma' \(of NPGA-EXTRA, .* 10 others\)"),
        ({"qqqqqqq": 1}, r"^Unknown option 'qqqqqqq'\. Known without a method's name"),
        ({"gamma": 3.0}, r"^gamma is an option of NPGA-EXTRA, .* and 10 others\. Known without"),
        ({"degree": 3}, r"^degree is an option of MiD2A\."),
        (
            {"rho": 1.0, "mode": "dual"},
            r"^rho is an option of iD2A, .*; mode is an option of Newton\.",
        ),
    ],
    ids=str,
)
def test_options_that_nothing_chosen_takes(options, said):
    with pytest.raises(d2.CapabilityError, match=said) as caught:
        d2.solve(made(), PATH, **options)
    assert "one of Newton (max_sums, mode), iD2A (rho, subsolver," in str(caught.value)


def test_size_of_a_problem():
    agents = [
        d2.Agent(np.ones((2, 3)), d2.Quadratic(np.diag([1.0, 2.0, 4.0])), d2.IndicatorSimplex()),
        d2.Agent(np.ones((2, 1)), d2.Quadratic([0.0], [1.0]), d2.IndicatorBox(0, 1)),
        d2.Agent(np.ones((2, 2)), OWN),
    ]
    network = d2.Network(nx.path_graph(3))
    size = measure(
        local_problem(d2.Problem(agents, d2.SquaredLoss([1.0, 2.0])), network), network, 1e-6
    )
    assert (size.underived, size.flat, size.variables, size.local) == (1, 1, 6, 27.0)
    assert size.condition == pytest.approx(np.sqrt((16 + 1) / 2))


def test_the_answer_says_why_and_equals_that_of_the_method():
    problem = made()
    auto, newton = (d2.solve(problem, PATH, method=name) for name in ("AUTO", "Newton"))
    assert auto.parameters["method"] == ("Newton", "auto")
    assert "\n\nMethod: Newton, for the shortest wait: 4 agents" in auto.explain()
    np.testing.assert_array_equal(auto.dual, newton.dual)
    assert auto.counts.rounds == newton.counts.rounds


def test_many_rows_of_quadratic_agents_are_for_the_primal_mode():
    rng = np.random.default_rng(0)
    agents = [d2.Agent(rng.standard_normal((700, 2)), d2.SquaredNorm(1.0)) for _ in range(4)]
    result = d2.solve(d2.Problem(agents, d2.SquaredLoss(rng.standard_normal(700))), PATH)
    assert result.status == "CONVERGED" and result.parameters["mode"][0] == "primal"
    assert result.counts.sums <= 10


def test_one_agreement_precedes_the_sums():
    result = d2.solve(made(), PATH, record=False)
    assert result.counts.agree_rounds == 2 * PATH.tree.height
    assert result.counts.rounds == result.counts.sums * 2 * PATH.tree.height


def test_a_run_goes_on_with_the_method_that_began_it():
    problem = made()
    part = d2.solve(problem, PATH, method="iD2A", max_rounds=50, tol=1e-12)
    assert chosen(problem, state=part.state).method.name == "iD2A"
    rest = d2.solve(problem, PATH, start=part.state, tol=1e-12)
    whole = d2.solve(problem, PATH, method="iD2A", tol=1e-12)
    assert rest.parameters["method"][0] == "iD2A"
    np.testing.assert_array_equal(rest.duals, whole.duals)


def test_an_automatic_run_is_cut_and_resumed_bit_for_bit():
    problem = made(f=d2.Quadratic(np.zeros(3), np.arange(3.0)), g=d2.IndicatorBox(0, 1))
    whole = d2.solve(problem, PATH)
    part = d2.solve(problem, PATH, max_rounds=12)
    assert (part.status, part.counts.rounds) == ("MAX_ROUNDS", 12)
    for start in (part, part.state):
        rest = d2.solve(problem, PATH, start=start)
        np.testing.assert_array_equal(np.concatenate(rest.x), np.concatenate(whole.x))
        assert rest.counts == whole.counts
    named = d2.solve(problem, PATH, method="interior-point", start=part.state)
    assert named.counts == whole.counts


def test_time_limit_progress_and_callback(monkeypatch):
    seen, shown = [], []

    class Spy(Bar):
        def __init__(self, name, tol):
            shown.append(name)
            super().__init__(name, tol)

    monkeypatch.setattr("dual2.solving.progress.Bar", Spy)
    result = d2.solve(made(), PATH, progress=True, callback=lambda info: seen.append(info["kkt"]))
    assert result.status == "CONVERGED" and shown == ["Newton"]
    assert d2.solve(made(), PATH, time_limit=0.0).status == "TIME_LIMIT"
    assert d2.solve(made(), PATH, callback=lambda info: True).status == "INTERRUPTED"
    assert len(seen) >= 1 and np.isfinite(seen).any()


@pytest.mark.parametrize("method", ["iD2A", "L-BFGS"])
def test_an_f_that_a_method_cannot_take_is_told_where_it_belongs(method):
    """exp has no Lipschitz constant: the first agent's mu = 0 is not what is wrong."""
    first = d2.Agent([[1.0]], d2.Quadratic([0.0], [1.0]), d2.IndicatorBox(0.0, 1.0))

    def problem(f, g):
        return d2.Problem([first, d2.Agent([[1.0]], f, g)], d2.IndicatorPoint([1.0]))

    loss = d2.PoissonLoss([2.0])
    pattern = "agent 1: the gradient of f must have .* L = inf. Give it as g, beside f = Zero"
    with pytest.raises(d2.CapabilityError, match=pattern):
        d2.solve(problem(loss, d2.Zero()), d2.Network([(0, 1)]), method=method)
    for f, g in ((d2.Zero(), loss), (loss, d2.Zero())):  # auto takes it in either place
        result = d2.solve(problem(f, g), d2.Network([(0, 1)]), record=False)
        assert result.status == "CONVERGED"
        assert result.x[1] == pytest.approx(1.0) and result.x[0] == pytest.approx(0.0, abs=1e-8)


def test_the_next_method_goes_on_where_one_stalls(monkeypatch):
    """Newton's steps are taken away, so that it stalls."""
    from dual2.methods.dual_newton.newton_loop import DualNewton

    def stall(self):
        now = self.current
        self.current = replace(now, sums=now.sums + 1, status=RunStatus.STALLED)

    monkeypatch.setattr(DualNewton, "_sum", stall)
    result = d2.solve(made(), PATH, record=False)
    assert result.status == "CONVERGED"
    assert result.parameters["method"] == ("interior-point", "auto")
    assert "interior-point, since Newton stalled after 4 rounds" in result.explain()
    assert result.counts.sums > 10
    named = d2.solve(made(), PATH, method="Newton", record=False)
    assert named.status == "STALLED"


def test_a_users_smooth_functions_take_few_exchanges():
    """Logistic regressions given by gradient and value: iD2A needs some thousand exchanges here."""
    rng = np.random.default_rng(0)

    def agent():
        M = rng.standard_normal((20, 5))
        f = d2.Smooth(
            lambda x: 0.01 * x - (1.0 / (1.0 + np.exp(M @ x))) @ M,
            mu=0.01,
            L=0.25 * np.linalg.norm(M, 2) ** 2 + 0.01,
            value=lambda x: float(np.logaddexp(0.0, -M @ x).sum() + 0.005 * x @ x),
        )
        return d2.Agent(rng.standard_normal((3, 5)), f)

    problem = d2.Problem([agent() for _ in range(6)], d2.IndicatorPoint(np.ones(3)))
    network = d2.Network(nx.path_graph(6))
    found = d2.solve(problem, network, progress=False)
    assert found.status == d2.Status.CONVERGED and found.parameters["method"][0] == "L-BFGS"
    assert found.counts.latency <= 136
    gossip = d2.solve(problem, network, method="iD2A", progress=False)
    assert gossip.counts.latency > 10 * found.counts.latency


class Cut:
    """Runs of methods that end as they are told to, after so many seconds each."""

    def __init__(self, **ends):
        self.ends, self.given = ends, []

    def __call__(self, choice, start, rounds, seconds):
        status, spent, s, objective, x = self.ends[choice.method.name.replace("-", "")]
        self.given.append((choice.method.name, seconds))
        if isinstance(start, Result):
            status = "CONVERGED"
        certificate = Certificate(1.0, 1.0, 1.0, objective, 0, 0, 0, 0.0, None, None, "")
        return Result(
            [np.array([x])], np.array([s]), np.zeros(1), np.zeros((1, 1)), 0.0, Status(status),
            Counts(rounds=5), certificate, {}, {}, seconds=spent,
            state={"mark": choice.method.name},
        )  # fmt: skip


def automatic(runs, time_limit=60.0, patience=0):
    methods = [d2.METHODS[name] for name in ("Newton", "interior-point", "L-BFGS")]
    choice = MethodChoice(methods[0], others=tuple(methods[1:]), patience=patience)
    h = d2.IndicatorPoint([1.0])
    return Candidates(choice, runs, h, lambda s: s, 1000, time_limit).run(None)


def test_a_method_leaves_time_to_those_that_may_take_over():
    runs = Cut(
        Newton=("TIME_LIMIT", 30.0, 0.0, 1.0, 1.0),
        interiorpoint=("STALLED", 2.0, 0.999, 1e-7, 2.0),
        LBFGS=("TIME_LIMIT", 28.0, 0.5, 1e-3, 3.0),
    )
    found = automatic(runs)
    assert runs.given == [("Newton", 30.0), ("interior-point", 15.0), ("L-BFGS", 28.0)]
    assert found.x[0] == 2.0, "the answer that is nearest to feasible and optimal"
    assert (found.status, found.state["mark"]) == ("TIME_LIMIT", "L-BFGS")
    assert (found.seconds, found.counts.rounds) == (60.0, 15)
    assert "No method solved it: Newton reached its time limit" in found.explanation


def test_a_proof_is_better_than_any_other_answer():
    runs = Cut(
        Newton=("STALLED", 2.0, 1.0, 1e-9, 1.0), interiorpoint=("INFEASIBLE", 1.0, 0.0, 1.0, 2.0)
    )
    found = automatic(runs, None)
    assert (found.status, found.x[0], len(runs.given)) == ("INFEASIBLE", 2.0, 2)


@pytest.mark.parametrize("end", ["INTERRUPTED", "MAX_ROUNDS"])
def test_other_ends_are_the_end(end):
    runs = Cut(Newton=(end, 2.0, 1.0, 1e-9, 1.0))
    assert automatic(runs).status == end and runs.given == [("Newton", 30.0)]


def test_small_limits_are_not_shared():
    runs = Cut(Newton=("TIME_LIMIT", 15.0, 0.0, 1.0, 1.0))
    assert automatic(runs, 15.0).status == "TIME_LIMIT" and runs.given == [("Newton", 15.0)]


def test_newton_goes_on_where_the_methods_that_interrupted_it_stall():
    """Its runs count once: five rounds of each, though the last run has the first one's too."""
    runs = Cut(
        Newton=("MAX_ROUNDS", 3.0, 0.0, 1.0, 1.0),
        interiorpoint=("STALLED", 2.0, 0.5, 1e-1, 2.0),
        LBFGS=("STALLED", 4.0, 0.5, 1e-1, 3.0),
    )
    found = automatic(runs, patience=5)
    names = [name for name, _ in runs.given]
    assert names == ["Newton", "interior-point", "L-BFGS", "Newton"]
    assert (found.status, found.x[0]) == ("CONVERGED", 1.0)
    assert (found.counts.rounds, found.seconds) == (15, 9.0)


def test_columns_over_three_decades_wait_for_newton_no_longer_than_its_patience():
    rng, scales = np.random.default_rng(0), np.logspace(0, 3, 40)
    A = rng.standard_normal((300, 40)) * scales
    y = A @ (rng.standard_normal(40) / scales) + 0.1 * rng.standard_normal(300)
    own = [(A[:, k : k + 5], d2.SquaredNorm(1e-3), d2.L1Norm(0.01)) for k in range(0, 40, 5)]
    problem = d2.Problem([d2.Agent(*data) for data in own], d2.SquaredLoss(y))
    result = d2.solve(problem, d2.Network(nx.path_graph(8)), record=False, progress=False)
    assert result.status == "CONVERGED" and result.counts.sums <= 100
    assert "interior-point, since Newton had not converged" in result.explain()
