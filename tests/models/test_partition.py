"""Models as problems of owners: private and linking rows, answers by name, certificates."""

import clarabel
import numpy as np
import pytest
import scipy.io
import scipy.optimize
import scipy.sparse as sp

import dual2 as d2
from dual2.models import Model, read_mat, read_model, read_owners


def random_model(seed, *, quadratic=False, maximise=False, m=6, n=12):
    """Feasible and bounded, with equations, both kinds of inequalities, ranges, fixed variables."""
    rng = np.random.default_rng(seed)
    A = sp.random_array((m, n), density=0.4, rng=rng, data_sampler=rng.standard_normal).toarray()
    x, y = rng.uniform(0.2, 1.0, n), A @ rng.uniform(0.2, 1.0, n)
    y = A @ x
    low, up = y.copy(), y.copy()
    low[2::4], up[3::4] = -np.inf, np.inf
    low[1::4] -= 0.5
    upper = np.full(n, 1.5)
    lower = np.where(np.arange(n) % 5 == 1, -np.inf, 0.0)
    lower[3] = upper[3] = x[3]
    root = rng.standard_normal((3, n)) * (np.arange(n) < 4)
    Q = (root.T @ root + np.diag(np.arange(n) > 8)) if quadratic else None
    sign = -1.0 if maximise else 1.0
    cost = sign * (A.T @ rng.standard_normal(m) + rng.standard_normal(n) * (lower > -np.inf))
    names = tuple(f"v{k}" for k in range(n))
    return Model.from_arrays(
        cost, A, low, up, Q=None if Q is None else sign * Q, lower=lower, upper=upper,
        variables=names, constant=2.5, maximise=maximise,
    )  # fmt: skip


def reference(model):
    """Objective and duals (of constraints) by CLARABEL, in the sense of the model."""
    sign = -1.0 if model.maximise else 1.0
    rows = sp.vstack([model.A, sp.eye_array(len(model.c))], format="csr")
    low = np.concatenate([model.row_lower, model.lower])
    up = np.concatenate([model.row_upper, model.upper])
    equal, above = low == up, np.isfinite(up) & (low < up)
    below = np.isfinite(low) & (low < up)
    G = sp.csc_matrix(sp.vstack([rows[equal], rows[above], -rows[below]]))
    h = np.concatenate([low[equal], up[above], -low[below]])
    cones = [clarabel.ZeroConeT(int(equal.sum())), clarabel.NonnegativeConeT(len(h) - equal.sum())]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    P = sp.csc_matrix(sp.triu(sign * model.Q))
    found = clarabel.DefaultSolver(P, sign * model.c, G, h, cones, settings).solve()
    z, y = np.array(found.z), np.zeros(len(low))
    y[equal], y[above] = z[: equal.sum()], z[equal.sum() :][: above.sum()]
    y[below] -= z[equal.sum() + above.sum() :]
    return sign * found.obj_val + model.constant, -sign * y[: len(model.constraints)]


@pytest.mark.parametrize("private_rows", [True, False])
@pytest.mark.parametrize(
    ("seed", "quadratic", "maximise"), [(0, False, False), (1, True, False), (2, True, True)]
)
def test_objective_and_duals_are_those_of_a_central_solver(seed, quadratic, maximise, private_rows):
    model = random_model(seed, quadratic=quadratic, maximise=maximise)
    problem, owned = model.to_problem(agents=3, seed=seed, private_rows=private_rows)
    answer = owned.answer(d2.solve(problem, owned.network()))
    objective, duals = reference(model)
    assert answer.status == "CONVERGED"
    assert answer.objective == pytest.approx(objective, rel=1e-6)
    assert model.violation(answer.x) < 1e-7
    assert answer.variables["v3"] == model.lower[3]
    np.testing.assert_allclose(list(answer.duals.values()), duals, rtol=1e-4, atol=1e-5)


def two_regions():
    """A region each with two plants and a quota of its own; a line of 2 between them."""
    return Model.from_arrays(
        [1.0, 4.0, 2.0, 3.0, 0.0],
        [[1, 1, 0, 0, -1], [0, 0, 1, 1, 1], [1, -1, 0, 0, 0], [0, 0, 2, 1, 0]],
        [6.0, 4.0, -np.inf, -np.inf],
        [6.0, 4.0, 3.0, 100.0],
        lower=[0, 0, 0, 0, -2],
        upper=[9, 9, 9, 9, 2],
        variables=("n_coal", "n_gas", "s_coal", "s_gas", "line"),
        constraints=("n_balance", "s_balance", "n_quota", "s_quota"),
    )


OWNERS = {"n_coal": "north", "n_gas": "north", "s_coal": "south", "s_gas": "south", "line": "grid"}


def test_rows_of_one_owner_are_private_and_have_duals():
    model = two_regions()
    problem, owned = model.to_problem(OWNERS)
    assert owned.owners == ["north", "south", "grid"] and problem.p == 2
    assert [model.constraints[k] for k in owned.coupling] == ["n_balance", "s_balance"]
    assert "north: 2 variables, 1 private constraint" in owned.summary
    assert "linking: 2 constraints: n_balance, s_balance" in owned.summary
    assert repr(owned) == "<OwnedModel: 3 owners, 2 rows of coupling>"
    answer = owned.answer(d2.solve(problem, owned.network("path")))
    found = scipy.optimize.linprog(
        model.c, model.A.toarray()[2:], [3, 100], model.A.toarray()[:2], [6, 4],
        list(zip(model.lower, model.upper, strict=True)),
    )  # fmt: skip
    assert answer.objective == pytest.approx(found.fun, rel=1e-9)
    duals = [*found.eqlin.marginals, *found.ineqlin.marginals]
    np.testing.assert_allclose(list(answer.duals.values()), duals, atol=1e-6)
    assert str(answer).startswith("CONVERGED, objective ")


def test_owners_from_files_and_functions(tmp_path):
    model = two_regions()
    path = tmp_path / "owners.csv"
    path.write_text("# who\nvariable,owner\n" + "".join(f"{v}, {o}\n" for v, o in OWNERS.items()))
    assert read_owners(path) == OWNERS
    by_file = model.to_problem(str(path))[1]
    by_name = model.to_problem(lambda name: OWNERS[name])[1]
    assert by_file.owners == by_name.owners == ["north", "south", "grid"]
    path.write_text("n_coal,north\nn_coal\n")
    with pytest.raises(d2.ProblemError, match=r"owners\.csv, line 2: expected variable,owner"):
        model.to_problem(path)
    path.write_text("n_coal,north\nn_coal,south\n")
    with pytest.raises(d2.ProblemError, match="line 2: 'n_coal' belongs to 'north' and to 'south'"):
        model.to_problem(path)


def test_who_is_refused_and_why():
    model = two_regions()
    with pytest.raises(d2.ProblemError, match="No owner for the variables n_gas, s_coal"):
        model.to_problem({"n_coal": "north"})
    with pytest.raises(d2.ProblemError, match=r"no variable 'lime'.* mean 'line'"):
        model.to_problem({**OWNERS, "lime": "grid"})
    with pytest.raises(d2.ProblemError, match="either owners"):
        model.to_problem()
    with pytest.raises(d2.ProblemError, match="agents is 0"):
        model.to_problem(agents=0)
    with pytest.raises(d2.ProblemError, match="owners is a list"):
        model.to_problem(["north"])
    joined = Model.from_arrays([0.0, 0.0], Q=[[1.0, 0.5], [0.5, 1.0]])
    with pytest.raises(d2.ProblemError, match="multiplies 'x1' of b with 'x0' of a"):
        joined.to_problem({"x0": "a", "x1": "b"})
    with pytest.raises(d2.ProblemError, match="not convex: see the square of 'x0'"):
        Model.from_arrays([0.0], Q=[[-1.0]]).to_problem(agents=1)
    with pytest.raises(d2.ProblemError, match="not concave"):
        Model.from_arrays([0.0], Q=[[1.0]], maximise=True).to_problem(agents=1)
    with pytest.raises(d2.ProblemError, match="Variable 'x0' has the lower bound 0 and the upper"):
        Model.from_arrays([0.0], upper=-1.0).to_problem(agents=1)
    with pytest.raises(d2.ProblemError, match=r"A has shape \(1, 1\); expected \(1, 2\)"):
        Model.from_arrays([0.0, 0.0], [[1.0]])
    with pytest.raises(d2.ProblemError, match="two variables are called 'a'"):
        Model.from_arrays([0.0, 0.0], variables=("a", "a"))


def test_variables_that_q_joins_stay_together():
    model = random_model(1, quadratic=True)
    _, owned = model.to_problem(agents=5)
    assert any({0, 1, 2, 3} <= set(columns.tolist()) for columns in owned.columns)
    assert len(owned.owners) == 5 and sum(map(len, owned.columns)) == 12
    _, few = Model.from_arrays([1.0, 1.0]).to_problem(agents=7)
    assert few.owners == ["agent 0", "agent 1"]


def test_infeasible_models_name_their_constraints():
    model = two_regions()
    low = model.row_lower.copy()
    low[0] = model.row_upper[0] = 30.0
    tight = Model(**{**vars(model), "row_lower": low})
    problem, owned = tight.to_problem(OWNERS)
    answer = owned.answer(d2.solve(problem, owned.network()))
    assert answer.status == "INFEASIBLE"
    assert next(iter(answer.conflict)) == "n_balance"
    assert str(answer).startswith("INFEASIBLE: these constraints exclude each other: n_balance")
    own = Model.from_arrays(
        [1.0, 1.0], [[1, 1], [1, 1]], [3, -np.inf], [np.inf, 2], constraints=("floor", "roof")
    )
    with pytest.raises(d2.ProblemError, match=r"constraints of agent 0 contradict .* floor, roof"):
        own.to_problem(agents=1)


def test_a_model_without_linking_rows_and_rows_without_bounds():
    model = Model.from_arrays([-1.0, 2.0], [[1.0, 1.0]], upper=3.0)
    problem, owned = model.to_problem(agents=2)
    answer = owned.answer(d2.solve(problem, owned.network("complete")))
    assert answer.variables == {"x0": 3.0, "x1": 0.0} and answer.duals == {"r0": 0.0}
    with pytest.raises(d2.ProblemError, match="kind is 'ring'; expected one of star"):
        owned.network("ring")
    with pytest.raises(d2.ProblemError, match="answers of 2 agents; expected 1"):
        model.to_problem(agents=1)[1].answer(answer.result)


def test_files_of_matlab(tmp_path):
    rng = np.random.default_rng(0)
    root = rng.standard_normal((4, 4))
    data = {
        "P": sp.csc_matrix(root @ root.T),
        "q": rng.standard_normal(4),
        "r": 1.5,
        "A": sp.csc_matrix(np.vstack([np.ones((1, 4)), np.eye(4)])),
        "l": np.array([1.0, 0, 0, -1e20, 0]),
        "u": np.array([1.0, 1, 0.9999999999999998e20, 1, 1]),
    }
    path = tmp_path / "M.mat"
    scipy.io.savemat(path, data)
    model = read_model(path)
    assert (model.name, model.constraints, model.constant) == ("M", ("r0",), 1.5)
    assert model.lower.tolist() == [0, 0, -np.inf, 0]
    assert model.upper.tolist() == [1, np.inf, 1, 1]
    problem, owned = model.to_problem(agents=3)
    assert len(owned.owners) == 1
    answer = owned.answer(d2.solve(problem, owned.network()))
    assert answer.objective == pytest.approx(reference(model)[0], rel=1e-7)
    scipy.io.savemat(path, {**data, "P": sp.triu(data["P"])})
    assert abs(read_mat(path).Q - model.Q).max() < 1e-12
    scipy.io.savemat(path, {**data, "q": data["q"][:3]})
    with pytest.raises(d2.ProblemError, match="do not fit together"):
        read_mat(path)
    scipy.io.savemat(path, {"P": data["P"]})
    with pytest.raises(d2.ProblemError, match="lacks q, A, l, u"):
        read_mat(path)
    path.write_text("text")
    with pytest.raises(d2.ProblemError, match="cannot be read as a MATLAB file"):
        read_mat(path)
