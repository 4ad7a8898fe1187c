"""What the comparison with rivals found: costs in every currency, tables and a figure.

Seconds over a network are predicted as

    latency · (rounds + agree_rounds) + 8 bytes · floats / bandwidth + seconds of this machine:

every exchange is waited for, all numbers of all agents pass one line, and the agents of this one
process compute one after the other. The last two are pessimistic, most of all for methods that send
or compute much. Seconds are those that the whole solve, set-up and certificate included, keeps the
processor busy, so that other work on the machine hardly matters.
"""

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from dual2.bench.store import SKIPPED, StoredRun
from dual2.bench.styles import draw_costs, name_rows, styles
from dual2.files import to_csv
from dual2.solving.plotting import new_panels
from dual2.solving.result import Status

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINKS = {"LAN": 1e-4, "metro": 5e-3, "WAN": 4e-2}
"""Seconds that a message takes."""
BANDWIDTH = 100e6 / 8
"""Bytes per second."""
CALLS = ("grad_f", "prox_g", "A", "AT", "prox_h")
CURRENCIES = ("latency", "floats", "calls", "seconds", *LINKS)
"""What a run costs: exchanges waited for, numbers sent, oracle calls, seconds here and there."""
WORDS = {
    Status.MAX_ROUNDS: "cut",
    Status.TIME_LIMIT: "cut",
    Status.STALLED: "stalled",
    Status.DIVERGED: "diverged",
    SKIPPED: "cannot",
}


def predicted_seconds(latency: float, exchanges: float, floats: float, compute: float) -> float:
    """Seconds over links with that latency; see the module's text.

    Examples
    --------
    >>> round(predicted_seconds(0.04, 100, 1.25e6, 0.5), 9)  # 4 s of waiting, 0.8 s of sending
    5.3
    """
    return latency * exchanges + 8.0 * floats / BANDWIDTH + compute


@dataclass(frozen=True)
class Standing:
    """One method on one problem and network; costs are infinite unless it converged."""

    problem: str
    network: str
    method: str
    side: str
    status: str
    costs: dict[str, float]
    reason: str
    tuned: str

    @property
    def word(self) -> str:
        """The status as tables say it, empty if it converged."""
        return "" if self.status == Status.CONVERGED else WORDS.get(self.status, self.status)


def standing(run: StoredRun) -> Standing:
    """What a run of the comparison cost."""
    case, met = run.case, run.status == Status.CONVERGED
    costs = dict.fromkeys(CURRENCIES, math.inf)
    if met:
        exchanges = run.counts["rounds"] + run.counts["agree_rounds"]
        floats = run.counts["floats"]
        calls = sum(run.counts[name] for name in CALLS)
        busy = float(run.machine.get("processor", run.seconds))
        own = {"latency": exchanges, "floats": floats, "calls": calls, "seconds": busy}
        costs |= {name: float(value) for name, value in own.items()}
        for link, latency in LINKS.items():
            costs[link] = predicted_seconds(latency, exchanges, floats, busy)
    where = str(case.notes["problem"]), str(case.notes["network"])
    told = "" if met else _reason(run)
    tuned = run.tuning.get("summary", "")
    return Standing(*where, case.label, str(case.notes["side"]), run.status, costs, told, tuned)


def _reason(run: StoredRun) -> str:
    """Why a run did not converge: the first sentence, or where it was when it was cut."""
    if run.status in (Status.MAX_ROUNDS, Status.TIME_LIMIT):
        residual = run.certificate.get("kkt", math.nan)
        return f"residual {residual:.1e} after {run.counts['rounds']} rounds"
    first = run.reason.partition(". ")[0].partition("; ")[0]
    return first.partition("cannot solve this problem: ")[2] or first


# -- who is first --------------------------------------------------------------------------------
def places_of(found: Iterable[Standing]) -> dict[tuple[str, str], list[Standing]]:
    """The standings of each problem and network."""
    places: dict[tuple[str, str], list[Standing]] = {}
    for one in found:
        places.setdefault((one.problem, one.network), []).append(one)
    return places


def firsts(found: Sequence[Standing]) -> dict[str, dict[str, int]]:
    """Currency → method → at how many places it is the cheapest.

    Examples
    --------
    >>> def made(method, cost):
    ...     return Standing("LP", "ring", method, "", "CONVERGED",
    ...                     dict.fromkeys(CURRENCIES, cost), "", "")
    >>> firsts([made("Newton", 3.0), made("DPMM", 9.0)])["latency"]
    {'Newton': 1}
    """
    table: dict[str, dict[str, int]] = {name: {} for name in CURRENCIES}
    for name, best, _ in _cheapest(found):
        table[name][best.method] = table[name].get(best.method, 0) + 1
    return table


def behind(found: Sequence[Standing]) -> list[tuple[str, str, str, str, float]]:
    """Problem, network, currency, who is first and by what factor, wherever none of ours is."""
    lost = []
    for name, best, members in _cheapest(found):
        if best.side != "ours":
            own = min((m.costs[name] for m in members if m.side == "ours"), default=math.inf)
            factor = own / best.costs[name]
            lost.append((best.problem, best.network, name, best.method, factor))
    return lost


def _cheapest(found: Iterable[Standing]) -> Iterator[tuple[str, Standing, list[Standing]]]:
    """Currency, who is first and all others, wherever somebody converged."""
    for members in places_of(found).values():
        for name in CURRENCIES:
            best = min(members, key=lambda one: one.costs[name])
            if math.isfinite(best.costs[name]):
                yield name, best, members


# -- tables ----------------------------------------------------------------------------------------
def peers_markdown(found: Sequence[Standing], title: str, budgets: str = "") -> str:
    """The whole comparison: who is first, one table per problem, who did not get there and why."""
    parts = [f"# {title}", *([budgets] if budgets else [])]
    parts += [_firsts_table(found), _behind_text(found)]
    for problem in dict.fromkeys(one.problem for one in found):
        parts.append(_problem_table(problem, [one for one in found if one.problem == problem]))
    parts.append(_reasons(found))
    return "\n\n".join(parts) + "\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], right: str = "--:") -> str:
    lines = [head, ["---"] + [right] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _firsts_table(found: Sequence[Standing]) -> str:
    won, count = firsts(found), len(places_of(found))
    sides = {one.method: one.side for one in found}
    names = [name for name in sides if any(name in of for of in won.values())]
    rows = [
        [f"{name} ({sides[name]})", *(str(won[currency].get(name, 0)) for currency in CURRENCIES)]
        for name in names
    ]
    return f"First of all on so many of {count} problems with a network:\n\n" + _table(
        ["method", *CURRENCIES], rows
    )


def _behind_text(found: Sequence[Standing]) -> str:
    lost = behind(found)
    if not lost:
        return "One of ours is first everywhere."
    cells: dict[tuple[str, str, str], list[tuple[str, float]]] = {}
    for problem, network, currency, method, factor in lost:
        cells.setdefault((problem, currency, method), []).append((network, factor))
    rows = [
        [problem, currency, method, ", ".join(f"{n} {_factor(f)}" for n, f in on)]
        for (problem, currency, method), on in cells.items()
    ]
    head = ["problem", "currency", "first", "network, and ours over it"]
    return "None of ours is first here:\n\n" + _table(head, rows, "---")


def _factor(value: float) -> str:
    return f"{value:.3g}×" if math.isfinite(value) else "(ours did not converge)"


def _problem_table(problem: str, found: Sequence[Standing]) -> str:
    networks = list(dict.fromkeys(one.network for one in found))
    rest = CURRENCIES[1:]
    rows = []
    for method in dict.fromkeys(one.method for one in found):
        own = {one.network: one for one in found if one.method == method}
        first = own[networks[0]]
        cells = [_cell(own[n], "latency") if n in own else "" for n in networks]
        rows.append([f"{method} ({first.side})", *cells, *(_cell(first, name) for name in rest)])
    head = ["method", *(f"latency, {name}" for name in networks)]
    head += [f"{name}, {networks[0]}" for name in rest]
    return f"## {problem}\n\n" + _table(head, rows)


def _cell(one: Standing, currency: str) -> str:
    value = one.costs[currency]
    if not math.isfinite(value):
        return one.word if currency == "latency" else "-"
    whole = currency in ("latency", "floats", "calls")
    return f"{value:.0f}" if whole and value < 1e6 else f"{value:.3g}"


def _reasons(found: Sequence[Standing]) -> str:
    """Every method that did not converge somewhere, and why."""
    refused: dict[tuple[str, str], list[str]] = {}
    others: dict[tuple[str, str, str], list[str]] = {}
    for one in found:
        if one.word == "cannot":
            refused.setdefault((one.method, one.reason), []).append(one.problem)
        elif one.word:
            told = f"{one.network}: {one.reason}"
            others.setdefault((one.method, one.problem, one.word), []).append(told)
    lines = [
        f"- {m} cannot: {why} ({', '.join(dict.fromkeys(on))})" for (m, why), on in refused.items()
    ]
    lines += [
        f"- {m}, {problem}: {word} ({'; '.join(on)})" for (m, problem, word), on in others.items()
    ]
    return "## Not solved, and why\n\n" + ("\n".join(lines) or "Everything was solved.")


def peers_csv(found: Sequence[Standing]) -> str:
    """One row per run; a cost is empty where it did not converge."""
    head = ["problem", "network", "method", "side", "status", *CURRENCIES, "reason", "tuned"]
    rows = []
    for one in found:
        costs = [value if math.isfinite(value) else "" for value in one.costs.values()]
        place = one.problem, one.network, one.method, one.side, one.status
        rows.append([*place, *costs, one.reason, one.tuned])
    return to_csv(head, rows)


def peers_json(found: Sequence[Standing]) -> str:
    """The same with the counts of who is first; infinite costs are null."""
    runs = [asdict(one) for one in found]
    for run in runs:
        run["costs"] = {k: v if math.isfinite(v) else None for k, v in run["costs"].items()}
    model = {"latency": LINKS, "bytes_per_second": BANDWIDTH}
    parts = {"model": model, "firsts": firsts(found), "runs": runs}
    return json.dumps(parts, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def peers_figure(runs: Sequence[StoredRun], title: str) -> "Figure":
    """Costs on the first network in four currencies: one row per problem, a marker per method."""
    found = [standing(run) for run in runs]
    network = found[0].network
    problems = list(dict.fromkeys(one.problem for one in found))
    samples = {one.method: run for one, run in zip(found, runs, strict=True)}
    looks = dict(zip(samples, styles(samples.values()), strict=True))
    shown = {"latency": "exchanges waited for", "floats": "numbers sent", "calls": "oracle calls"}
    shown["WAN"] = "seconds predicted, 40 ms links"
    figure = new_panels(1, len(shown), (13, 2.4 + 0.4 * len(problems)), sharey=True)
    for panel, (currency, words) in zip(figure.axes, shown.items(), strict=True):
        for method, look in looks.items():
            own = [one for one in found if one.method == method and one.network == network]
            costs = {one.problem: one.costs[currency] for one in own}
            draw_costs(panel, look, costs, problems, method if currency == "latency" else None)
        panel.set(xscale="log", xlabel=words)
    name_rows(figure.axes[0], problems)
    figure.suptitle(f"{title}: {network}")
    figure.legend(loc="outside lower center", ncols=6, frameon=False)
    return figure
