"""The paper's experiments from cases to report: run what is missing, then draw the store."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from dual2.bench.case import Case
from dual2.bench.harness import Outcome, run_cases
from dual2.bench.store import Store, StoredRun
from dual2.files import refuse_existing
from dual2.paper.captions import ABOUT
from dual2.paper.claims import Claim, claims
from dual2.paper.figures import CLAIMS, REPORT, SUFFIXES, draw
from dual2.paper.planned_runs import QUICK_TARGET, TARGET, cases, groups
from dual2.paper.theory_claims import GROUP
from dual2.solving.plotting import require


@dataclass(frozen=True, eq=False)
class Reproduction:
    """What came out."""

    target: float  # relative gap at which costs are to be read off
    runs: dict[str, list[StoredRun]]  # group of runs → its finished runs, in order
    claims: list[Claim]  # the paper's claims about these groups
    files: list[Path]  # what was drawn; empty after an interrupt
    outcome: Outcome  # what was run, kept, skipped, failed


def reproduce(
    names: str | Iterable[str],
    out: str | os.PathLike[str] = "results",
    *,
    quick: bool = False,
    force: bool = False,
    literal: bool = False,
    workers: int | None = None,
    progress: bool | str | None = None,
) -> Reproduction:
    """Run experiments of the paper, store every run, draw figures, tables and the report.

    Runs that are stored already are kept, so that an interrupted reproduction continues where it
    stopped. Figures of other runs, like those of a quick reproduction, are not replaced without
    ``force``. The report tells of all runs in the folder, whatever experiment they belong to.

    Parameters
    ----------
    names : str or iterable of str
        ``"exp1"``, ``"exp2"``, ``"exp3"`` or ``"all"``.
    out : path
        Folder of the store; made if need be.
    quick : bool
        Aim at a gap of 1e-4 instead of 1e-8, with smaller limits.
    force : bool
        Make every run again, and replace the figures of an earlier reproduction.
    literal : bool
        Make the runs of iD2A and MiD2A in literal mode, too, and judge the claims by these.
    workers : int, optional
        Processes, by default as many as cores.
    progress : bool or "lines", optional
        As for :func:`dual2.bench.harness.run_cases`.
    """
    require("jinja2", "matplotlib", "plotly")
    wanted = [names] if isinstance(names, str) else list(names)
    chosen, store, planned = groups(wanted), Store(out), cases(wanted, quick, literal)
    for group in chosen:
        own = force or _shows_only(store, group, planned)
        for suffix in SUFFIXES:
            refuse_existing(store.folder / f"{group}.{suffix}", own)
    outcome = run_cases(planned, store, workers=workers, force=force, progress=progress)
    files: list[Path] = []
    if not outcome.interrupted:
        files = draw(store.folder, force=True, about=ABOUT, claims=claims)
    return Reproduction(
        QUICK_TARGET if quick else TARGET,
        {group: store.runs(group) for group in chosen},
        [claim for claim in claims(store) if claim.group in (*chosen, GROUP)],
        [file for file in files if file.stem in chosen or file.name in (REPORT, CLAIMS)],
        outcome,
    )


def _shows_only(store: Store, group: str, planned: Iterable[Case]) -> bool:
    """Whether what is stored of a group are some of these runs, so that drawing loses nothing."""
    shown = {run.case.key for run in store.runs(group)}
    return bool(shown) and shown <= {case.key for case in planned}
