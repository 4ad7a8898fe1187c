"""Whatever is saved, planned, made again or left half-written, a store tells what belongs to it."""

import shutil
import tempfile
from pathlib import Path

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from dual2.bench.store import Case, Store, StoredRun

CASES = [Case(group, label, "exp1") for group in ("b", "a", "c") for label in ("one", "two")]
SOME = st.lists(st.sampled_from(CASES), unique_by=lambda case: case.key)


class Stored(RuleBasedStateMachine):
    """A store beside what it ought to hold."""

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.store = Store(self.folder)
        self.saved, self.planned = {}, {}

    @rule(
        case=st.sampled_from(CASES),
        status=st.sampled_from(["CONVERGED", "FAILED"]),
        kkt=st.lists(st.floats(), max_size=3),
    )
    def save(self, case, status, kkt):
        trace = {"rounds": np.arange(len(kkt)), "kkt": np.array(kkt)} if kkt else {}
        self.store.save(StoredRun(case, status, trace=trace))
        self.saved[case.key] = (case, status, kkt)

    @rule(case=st.sampled_from(CASES))
    def be_killed_while_writing(self, case):
        if case.key not in self.saved:
            (self.folder / "runs").mkdir(exist_ok=True)
            (self.folder / "runs" / f"{case.key}.csv").write_text("rounds\n1\n")

    @rule(cases=SOME)
    def plan(self, cases):
        self.store.plan(cases)
        for group in dict.fromkeys(case.group for case in cases):
            self.planned[group] = [case.key for case in cases if case.group == group]

    @rule()
    def open_again(self):
        self.store = Store(self.folder)

    @invariant()
    def everything_is_told_in_order(self):
        keys = [key for members in self.planned.values() for key in members if key in self.saved]
        free = [key for key, (case, *_) in self.saved.items() if case.group not in self.planned]
        wanted = keys + sorted(free)
        assert [run.case.key for run in self.store.runs()] == wanted
        groups = list(dict.fromkeys(self.saved[key][0].group for key in wanted))
        assert self.store.groups() == groups
        for group in groups:
            own = [key for key in wanted if self.saved[key][0].group == group]
            assert [run.case.key for run in self.store.runs(group)] == own

    @invariant()
    def runs_come_back_as_they_were_last_saved(self):
        for case in CASES:
            assert self.store.has(case) == (case.key in self.saved)
        for case, status, kkt in self.saved.values():
            found = self.store.load(case)
            assert (found.case, found.status) == (case, status)
            np.testing.assert_array_equal(found.trace.get("kkt", []), kkt)

    def teardown(self):
        shutil.rmtree(self.folder)


TestStored = Stored.TestCase
TestStored.settings = settings(
    max_examples=20, stateful_step_count=12, deadline=None, derandomize=True, database=None
)
