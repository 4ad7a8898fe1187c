"""Eight parties, six of which are enough: random deaths at every phase, nobody comes back.

Each schedule kills up to three programs where they pass a random point for a random time. The
others must all have the bits of the problem without the lost parties, or all an error. Once totals
are being compared, some may have the answer of all, and the others an error that says so.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))
from common.report import Report, parse
from dropouts import Deaths, Killed, N, answer_without, make_offices, run_all
from dual2.errors import PeerError
from dual2.runtime.peers import crash_points
from dual2.solving.result import Status

POINTS = (
    "before send KEYS",
    "before send UP",
    "before send DOWN",
    "before write said",
    "after sync said",
    "after receive",  # may kill the task of a link: its party lives, deaf to one neighbour
)
MAX_LOST, MAX_PASSAGES = 3, 30


def run(folder: Path, seed: int) -> tuple[str, int]:
    """One schedule: how it ended, and how many parties were lost."""
    draw = random.Random(seed)
    chosen = draw.sample(range(N), draw.randint(1, MAX_LOST))
    where = {i: (draw.choice(POINTS), draw.randint(1, MAX_PASSAGES)) for i in chosen}
    offices = make_offices(folder)
    with pytest.MonkeyPatch.context() as patch:
        Deaths(offices, where, patch)
        try:
            found = run_all(offices, range(N))
        except AssertionError as error:
            return f"WRONG: seed {seed} {where}: {error}", len(where)
        finally:
            crash_points.listen(None)
    lost = [i for i in range(N) if isinstance(found[i], Killed)]
    return judge(offices, found, lost, f"seed {seed} {where}"), len(lost)


def judge(offices: Any, found: dict[int, Any], lost: list[int], what: str) -> str:
    """What a schedule ended with, in words."""
    left = [i for i in range(N) if i not in lost]
    answered = [i for i in left if found[i] == Status.CONVERGED]
    wrong = [found[i] for i in left if i not in answered and not isinstance(found[i], PeerError)]
    if wrong:
        return f"WRONG: {what}: {wrong[0]!r}"
    answers = {i: offices.answer(i) for i in answered}
    missing = {tuple(one.get("missing", [])) for one in answers.values()}
    if len(missing) > 1:
        return f"WRONG: {what}: answers without {sorted(missing)}"
    if not answered:
        return "an error everywhere"
    gone = [offices.names.index(name) for name in missing.pop()]
    right = answer_without(gone)
    if any((one["x"], one["dual"]) != right[i] for i, one in answers.items()):
        return f"WRONG: {what}: other bits"
    if len(answered) == N - len(gone):
        return "all that are left: the bits without the lost" if gone else "all: the same bits"
    if gone and len(answered) < len(left):
        return f"WRONG: {what}: some of the second run have no answer"
    return "lost while totals were compared: some have the answer of all"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schedules", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0, help="of the first schedule")
    parser.add_argument("--limit", type=float, default=1e9, help="seconds; no new schedule after")
    options = parse(parser, schedules=1)
    report, ends, deaths = Report(options), Counter[str](), 0
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as parent:
        for seed in range(options.seed, options.seed + options.schedules):
            if time.monotonic() - begun > options.limit:
                break
            end, lost = run(Path(parent) / str(seed), seed)
            deaths += lost
            ends[end.partition(":")[0] if end.startswith("WRONG") else end] += 1
            report.expect(not end.startswith("WRONG"), end)
    rows = [*sorted(ends.items()), ("schedules", ends.total()), ("lost parties", deaths)]
    rows += [("seconds", round(time.monotonic() - begun, 1))]
    report.table("Eight parties, threshold 6", ("how a schedule ended", "how often"), rows)
    report.end()


if __name__ == "__main__":
    main()
