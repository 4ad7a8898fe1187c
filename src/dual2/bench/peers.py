"""The comparison with rivals: which problems, networks and methods, with which parameters.

Every method runs with the parameters of its rule (the rule's source stands in ``dual2 methods``);
penalties, for which no theory gives a value, are searched for on the same problem first: two values
per decade over at least three decades and then finer, each with the same budget of rounds, until
it has taken as many as the best so far needed. For methods over exact sums, whose iterates are the
same on every network, that is done on the complete graph. What a search costs is not charged.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from dual2.bench.case import Case
from dual2.methods import find_method

NAME = "peers"
"""What ``dual2 bench`` calls it."""
TOL = 1e-8
MOST, QUICK_MOST = 20_000, 4_000
"""Rounds after which a run is cut."""
BUDGET, QUICK_BUDGET = 2_000, 500
"""Rounds of each trial where a penalty is searched for."""
SHORTER = {"MPC": (4_000, 1_000)}
"""Both for problems whose local problems, polyhedra here, take a hundred times the work."""
SECONDS = 300.0
"""Seconds after which a run is cut: far above what so many rounds take, even on a busy machine."""

PROBLEMS: dict[str, tuple[str, dict[str, Any]]] = {
    "dispatch": ("dispatch", {}),
    "elastic net": ("elastic_net", {"kappa_f": 10.0}),
    "logistic": ("classifier", {}),
    "logistic + l1": ("classifier", {"l1": 0.01}),
    "SVM": ("classifier", {"loss": "hinge"}),
    "MPC": ("mpc", {}),
    "LP": ("lp", {}),
    "Experiment I": ("paper", {}),
    "Experiment II": ("paper", {"experiment": 2, "active": True}),
    "Experiment III": ("paper", {"experiment": 3, "active": True, "n": 20}),
}
"""Builder and arguments of each problem; II and III are the variants whose coupling binds."""
QUICK_PROBLEMS = ("dispatch", "elastic net", "logistic", "LP")

NETWORKS = ("path", "ring", "geometric", "complete")
QUICK_NETWORKS = ("path", "complete")


@dataclass(frozen=True)
class Peer:
    """A method of the comparison: ``ours``, the ``paper``'s, or a rival's; tuned or by its rule."""

    method: str
    side: str = "rival"
    tuned: bool = False

    @property
    def label(self) -> str:
        """What tables call it."""
        return f"{self.method}, tuned" if self.tuned else self.method


PEERS = (
    Peer("Newton", "ours"),
    Peer("L-BFGS", "ours"),
    Peer("iD2A", "paper"),
    Peer("MiD2A", "paper"),
    Peer("NPGA-P2D2"),
    Peer("NPGA-II"),
    Peer("APAPC-Chebyshev"),
    Peer("Tracking-ADMM", tuned=True),
    Peer("DC-ADMM", tuned=True),
    Peer("DPMM", tuned=True),
    Peer("CoLA"),
    Peer("CoCoA+"),
    Peer("Sharing-ADMM", tuned=True),
    Peer("Sharing-ADMM-AA", tuned=True),
    Peer("FISTA"),
    Peer("VF-L-BFGS"),
)
"""Of the NPGA family two with few rounds on a path of eight (``benchmarks/npga.py``), not all."""


def over_sums(peer: Peer) -> bool:
    """Whether iterates are the same on every network, and only the rounds of a sum differ.

    Such a method's penalty is searched for on the complete graph, where a sum takes fewest rounds:
    the budget then holds most iterations, and the best penalty is that of every network.
    """
    return find_method(peer.method).rounds == "2·height"


def budgets(quick: bool = False) -> str:
    """What every run and every trial of a search may take, in one sentence.

    Examples
    --------
    >>> print(budgets().partition(";")[0])
    Each run ends at a KKT residual of 1e-08, after 20000 rounds (MPC: 4000) or 300 s
    """
    rounds, budget = _limits("", quick)
    others = {name: _limits(name, quick) for name in SHORTER}
    fewer, less = (
        "".join(f" ({name}: {pair[k]})" for name, pair in others.items()) for k in range(2)
    )
    return (
        f"Each run ends at a KKT residual of {TOL:g}, after {rounds} rounds{fewer} or "
        f"{SECONDS:g} s; each trial of a search for a penalty after {budget} rounds{less}, or when "
        "it cannot win any more."
    )


def _limits(problem: str, quick: bool) -> tuple[int, int]:
    """Rounds of a run and of a trial."""
    rounds, budget = SHORTER.get(problem, (MOST, BUDGET))
    return (min(rounds, QUICK_MOST), min(budget, QUICK_BUDGET)) if quick else (rounds, budget)


def peer_cases(
    quick: bool = False,
    problems: Iterable[str] | None = None,
    networks: Iterable[str] | None = None,
    methods: Iterable[str] | None = None,
) -> list[Case]:
    """The runs of the comparison, or those of some problems, networks and methods.

    Examples
    --------
    >>> len(peer_cases()), len(peer_cases(quick=True))
    (640, 128)
    >>> case = peer_cases(problems=["LP"], networks=["ring"])[0]
    >>> case.group, case.label, case.notes["side"]
    ('LP on ring', 'Newton', 'ours')
    """
    wanted = list(problems or (QUICK_PROBLEMS if quick else PROBLEMS))
    chosen = None if methods is None else set(methods)
    places = list(networks or (QUICK_NETWORKS if quick else NETWORKS))
    return [
        _case(problem, place, peer, quick)
        for problem in wanted
        for place in places
        for peer in PEERS
        if chosen is None or peer.method in chosen
    ]


def _case(problem: str, place: str, peer: Peer, quick: bool) -> Case:
    build, options = PROBLEMS[problem]
    rounds, budget = _limits(problem, quick)
    limits = {"tol": TOL, "max_rounds": rounds, "time_limit": SECONDS, "record": False}
    notes: dict[str, Any] = {"problem": problem, "network": place, "side": peer.side}
    if peer.side == "ours":
        notes["ours"] = True
    if peer.tuned:
        notes["tune"] = {"budget": budget} | ({"network": "complete"} if over_sums(peer) else {})
    if find_method(peer.method).reconstructed:
        notes["reconstructed"] = True
    where = options | {"network": {"build": place}}
    group = f"{problem} on {place}"
    return Case(group, peer.label, build, where, {"method": peer.method} | limits, notes=notes)
