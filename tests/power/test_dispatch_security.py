"""N-1 security against a linear program that has all rows; islands and DC lines."""

import numpy as np
import pytest
from scipy.optimize import linprog

import dual2 as d2
from dual2 import power
from dual2.power.outages import OutageFactors


def meshed_case(buses=10, chords=7, seed=0, factor=1.0):
    """Units with linear costs on a ring with chords, loads everywhere; data for both sides."""
    rng = np.random.default_rng(seed)
    pairs = [(k, (k + 1) % buses) for k in range(buses)]
    pairs += [tuple(rng.choice(buses, 2, replace=False)) for _ in range(chords)]
    lines = [
        power.Line(int(a), int(b), float(rng.uniform(300, 900)), rating=45.0, name=f"line {k}",
                   emergency=54.0 if k % 3 == 0 else None)
        for k, (a, b) in enumerate(pairs)
    ]  # fmt: skip
    units = [
        power.Generator(f"g{k}", (0.0, float(rng.uniform(10, 60))), p_max=90.0, bus=int(bus))
        for k, bus in enumerate(rng.choice(buses, 6, replace=False))
    ]
    demand = {k: float(rng.uniform(10, 30)) for k in range(buses)}
    return power.Dispatch(units, demand, grid=power.Grid(lines), shed=500.0,
                          security=power.Security(factor=factor))  # fmt: skip


def solution_with_all_rows(case, factor):
    """Cost and prices of a linear program in angles, with one copy of them for every outage.

    Nothing of the tested code is used: the flows after an outage are those of a grid without it.
    """
    grid, units = case.grid, case.units
    buses, n = sorted(case.demand), len(units)
    N, L = len(buses), len(grid.lines)
    ends = np.array([(line.start, line.end) for line in grid.lines])
    b = np.array([line.susceptance for line in grid.lines])
    states = [None, *(k for k in range(L) if _connected(ends, k, N))]
    width = n + N * len(states)
    equal, right, upper, bound = [], [], [], []
    for s, outage in enumerate(states):
        first = n + s * N
        balance = np.zeros((N, width))
        for k, unit in enumerate(units):
            balance[unit.bus, k] += 1.0
        for k in range(L):
            if k == outage:
                continue
            i, j = ends[k]
            flow = np.zeros(width)
            flow[first + i], flow[first + j] = b[k], -b[k]
            balance[i] -= flow
            balance[j] += flow
            line = grid.lines[k]
            after = factor * line.rating if line.emergency is None else line.emergency
            limit = line.rating if outage is None else after
            upper += [flow, -flow]
            bound += [limit, limit]
        equal.append(balance)
        right.append(np.array([case.demand[bus][0] for bus in buses]))
        reference = np.zeros((1, width))
        reference[0, first] = 1.0
        equal.append(reference)
        right.append(np.zeros(1))
    cost = np.concatenate([[unit.cost[1] for unit in units], np.zeros(width - n)]).astype(float)
    tops = [float(np.max(unit.p_max)) for unit in units]
    box = [(0.0, top) for top in tops] + [(None, None)] * (width - n)
    found = linprog(cost, np.array(upper), bound, np.vstack(equal), np.concatenate(right), box)
    assert found.status == 0, found.message
    # one more MW of demand at a bus counts in every copy of the balances
    marginals = found.eqlin.marginals.reshape(len(states), N + 1)[:, :N].sum(axis=0)
    return found.fun, dict(zip(buses, marginals, strict=True)), len(upper)


def _connected(ends, outage, count):
    """Whether the grid holds together without a line."""
    reached, grows = {0}, True
    while grows:
        more = {
            int(v)
            for k, pair in enumerate(ends)
            if k != outage and set(pair.tolist()) & reached
            for v in pair
        }
        grows = not more <= reached
        reached |= more
    return len(reached) == count


@pytest.mark.parametrize(("seed", "factor"), [(0, 1.0), (1, 1.0), (2, 1.1), (3, 0.7), (7, 0.7)])
def test_generated_rows_give_what_all_rows_give(seed, factor):
    case = meshed_case(seed=seed, factor=factor)
    cost, prices, rows = solution_with_all_rows(case, factor)
    answer = case.solve()
    assert answer.solved
    assert answer.cost == pytest.approx(cost, rel=1e-8)
    for bus, price in answer.bus_prices().items():
        assert price[0] == pytest.approx(prices[bus], abs=1e-4)
    after = [row for row in answer.active if row.outage >= 0]
    assert after and len(answer.active) < 0.1 * rows
    assert all(abs(row["flow"]) == pytest.approx(abs(row["limit"])) for row in answer.contingencies)
    assert answer.contingencies and {"line", "outage"} <= set(answer.contingencies[0])


def test_without_outages_that_bind_security_costs_nothing():
    case = meshed_case(seed=1, factor=50.0)
    plain = power.Dispatch(case.units[:6], case.demand, grid=case.grid, shed=500.0)
    free = power.Grid([power.Line(k.start, k.end, k.susceptance, k.rating, name=k.name)
                       for k in case.grid.lines])  # fmt: skip
    secure = power.Dispatch(case.units[:6], case.demand, grid=free, shed=500.0,
                            security=power.Security(factor=50.0))  # fmt: skip
    assert secure.solve().cost == pytest.approx(plain.solve().cost, rel=1e-9)


def test_outages_that_separate_the_grid_are_listed():
    lines = [
        power.Line("a", "b", 500.0, rating=60.0, name="one"),
        power.Line("a", "b", 500.0, rating=60.0, name="two"),
        power.Line("b", "c", 500.0, rating=60.0, name="radial"),
    ]
    units = [power.Generator("g", (0.0, 10.0), 200.0, bus="a"),
             power.Generator("h", (0.0, 30.0), 200.0, bus="b")]  # fmt: skip
    case = power.Dispatch(units, {"c": 50.0, "b": 40.0}, grid=power.Grid(lines),
                          security=power.Security())  # fmt: skip
    answer = case.solve()
    assert answer.separating == ["radial"]
    assert answer.power.ravel().round(5).tolist() == [60.0, 30.0]
    only = power.Dispatch(units, {"c": 50.0, "b": 40.0}, grid=power.Grid(lines),
                          security=power.Security(outages=["radial"]))  # fmt: skip
    assert only.solve().power.ravel().round(5).tolist() == [90.0, 0.0]


def test_factors_are_those_of_the_grid_without_the_line():
    case = meshed_case(seed=5)
    factors = OutageFactors(case.grid, power.Security(), 1)
    injections = np.random.default_rng(0).normal(size=(case.grid.size, 1))
    injections -= injections.mean()
    flows = case.grid.flows(injections)[:, 0]
    for outage in range(0, len(flows), 4):
        rest = [line for k, line in enumerate(case.grid.lines) if k != outage]
        nodes = {bus: bus for bus in case.grid.place}
        without = power.Grid(rest, nodes)
        moved = np.zeros_like(injections)
        for bus, place in case.grid.place.items():
            moved[without.place[bus]] = injections[place]
        expected = without.flows(moved)[:, 0]
        column = factors.column(outage)
        after = np.delete(flows + column * flows[outage], outage)
        np.testing.assert_allclose(after, expected, atol=1e-9)


def test_a_thousand_lines_and_outages_without_the_full_matrix():
    rng, n = np.random.default_rng(1), 500
    pairs = [(k, (k + 1) % n) for k in range(n)]
    pairs += [tuple(pair) for pair in rng.integers(n, size=(n, 2)) if pair[0] != pair[1]]
    lines = [
        power.Line(int(a), int(b), float(rng.uniform(500, 2000)), rating=300.0, name=f"line {k}")
        for k, (a, b) in enumerate(pairs)
    ]
    assert len(lines) > 990
    units = [
        power.Generator(f"g{k}", (0.002, float(c)), p_max=500.0, bus=int(k * 25))
        for k, c in enumerate(rng.uniform(10, 60, 20))
    ]
    demand = {k: float(p) for k, p in enumerate(rng.uniform(2, 10, n))}
    case = power.Dispatch(units, demand, grid=power.Grid(lines), security=power.Security())
    answer = case.solve()
    assert answer.solved
    excess, _ = case.line_rows.outages.worst(answer.line_flows)
    assert excess.max() < 1e-4, "no outage overloads a line"
    for outage in (3, 700):
        column = case.line_rows.outages.column(outage)
        after = answer.line_flows[:, 0] + column * answer.line_flows[outage, 0]
        assert np.abs(np.delete(after, outage)).max() <= 300.0 + 1e-4


def test_security_needs_a_grid_and_known_lines():
    units = [power.Generator("g", (0.0, 1.0), 5.0, bus=0)]
    with pytest.raises(d2.ProblemError, match="security needs lines"):
        power.Dispatch(units, {0: 1.0}, security=power.Security())
    line = power.Line(0, 1, 1.0, name="tie")
    with pytest.raises(d2.ProblemError, match="Did you mean 'tie'"):
        power.Dispatch(units, {0: 1.0}, grid=power.Grid([line]),
                       security=power.Security(outages=["tye"]))  # fmt: skip
    with pytest.raises(d2.ProblemError, match="factor = 0"):
        power.Security(factor=0.0)
    case = meshed_case()
    with pytest.raises(d2.ProblemError, match="generated while solving"):
        _ = case.problem


# -- islands and DC lines -------------------------------------------------------------------------


def two_islands(**cable):
    """Two AC grids of three buses each, and a DC line between them."""
    lines = [
        power.Line(a, b, 400.0, rating=130.0)
        for a, b in [("n1", "n2"), ("n2", "n3"), ("n1", "n3"), ("s1", "s2"), ("s2", "s3")]
    ]
    units = [
        power.Generator("hydro", (0.001, 12.0), p_max=[250.0, 90.0], bus="n1"),
        power.Generator("oil", (0.002, 70.0), p_max=100.0, bus="n3"),
        power.Generator("gas", (0.003, 50.0), p_max=200.0, bus="s3"),
        power.DCLine("cable", "n2", "s1", p_max=60.0, **cable),
    ]
    demand = {"n2": [40.0, 60.0], "n3": 50.0, "s1": 70.0, "s2": [10.0, 20.0]}
    return power.Dispatch(units, demand, grid=power.Grid(lines))


@pytest.mark.parametrize("loss", [0.0, 0.04])
def test_islands_joined_by_a_dc_line(loss):
    case = two_islands(loss=loss, cost=(0.0, 0.5))
    answer = case.solve()
    assert answer.solved and len(case.islands) == 2
    sent = answer.power[3]
    assert sent[0] == pytest.approx(60.0, abs=1e-4), "hydro is cheap in the first hour"
    arrived = np.where(sent > 0, (1 - loss) * sent, sent)
    south = answer.power[2] + arrived - np.array([80.0, 90.0])
    np.testing.assert_allclose(south, 0.0, atol=1e-5)
    north, south = answer.bus_price("n2"), answer.bus_price("s1")
    assert north[0] < 20.0 < 49.0 < south[0]
    if 1e-3 < sent[1] < 59.9:  # not at a limit: prices differ by losses and the fee
        assert (1 - loss) * south[1] == pytest.approx(north[1] + 0.5, abs=1e-3)
    curves = [(0.001, 12), (0.002, 70), (0.003, 50)]
    expected = sum(
        c2 * p @ p + c1 * p.sum() for (c2, c1), p in zip(curves, answer.power[:3], strict=True)
    )
    assert answer.cost == pytest.approx(expected + 0.5 * np.abs(sent).sum(), rel=1e-6)
    paid = answer.congestion_rent
    assert (paid >= -1e-6).all()


def test_an_island_that_cannot_be_served_is_named():
    units = [power.Generator("g", (0.0, 1.0), 50.0, bus="a"),
             power.DCLine("cable", "a", "b", p_max=5.0)]  # fmt: skip
    with pytest.raises(d2.ProblemError, match=r"demand of island B is 9 MW.*at most 5 MW"):
        power.Dispatch(units, {"a": 1.0, "b": 9.0}, islands={"a": "A", "b": "B"},
                       graph=[("g", "cable")])  # fmt: skip
    with pytest.raises(d2.ProblemError, match="islands has no entry for bus 'b'"):
        power.Dispatch(units, {"a": 1.0, "b": 4.0}, islands={"a": "A"}, graph=[("g", "cable")])
    with pytest.raises(d2.ProblemError, match="both ends are at bus 'a'"):
        power.DCLine("cable", "a", "a", p_max=5.0)
    with pytest.raises(d2.ProblemError, match=r"expected a share in \[0, 1\)"):
        power.DCLine("cable", "a", "b", p_max=5.0, loss=1.0)


def test_zones_and_tables_with_a_dc_line():
    plain = two_islands().solve()
    case = two_islands()
    zones = {bus: "north" if bus.startswith("n") else "south" for bus in case.grid.place}
    zoned = power.Dispatch(case.units, case.demand, grid=case.grid, zones=zones).solve()
    assert zoned.cost == pytest.approx(plain.cost, rel=1e-7)
    table = {row["zone"]: row for row in zoned.zones}
    np.testing.assert_allclose(table["south"]["export"], [0.0, 0.0], atol=1e-5)
    made = {row["bus"]: row["generation"] for row in zoned.buses}
    assert made["s1"][0] == pytest.approx(60.0, abs=1e-4)
