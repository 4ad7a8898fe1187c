"""However a run is cut, stored and taken up again, it is the run that nobody disturbed."""

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

import dual2 as d2
from problems import random_problem

ENDLESS = {"tol": 0.0, "atol": 1e-300, "record": False, "progress": False}


class Interrupted(RuleBasedStateMachine):
    """One solve in pieces; at the end it is compared with the same solve in one piece."""

    part = None
    rounds = 0

    @initialize(seed=st.sampled_from([5, 38, 122, 141]), method=st.sampled_from(["iD2A", "MiD2A"]))
    def begin(self, seed, method):
        self.problem, self.network = random_problem(seed)
        self.wishes = ENDLESS | {"method": method}

    def solve(self, **limits):
        self.part = d2.solve(self.problem, self.network, start=self.part, **self.wishes, **limits)

    @rule(more=st.integers(0, 80))
    def run_on(self, more):
        self.rounds += more
        self.solve(max_rounds=self.rounds)

    @precondition(lambda self: self.part is not None)
    @rule()
    def run_out_of_time(self):
        self.solve(max_rounds=self.rounds, time_limit=self.part.seconds)

    @precondition(lambda self: self.part is not None)
    @rule()
    def store_and_load(self):
        with tempfile.TemporaryDirectory() as folder:
            self.part.save(Path(folder) / "part")
            self.part = d2.Result.load(Path(folder) / "part")

    def teardown(self):
        if self.part is None:
            return
        whole = d2.solve(self.problem, self.network, max_rounds=self.rounds, **self.wishes)
        assert self.part.counts == whole.counts
        np.testing.assert_array_equal(self.part.duals, whole.duals)
        np.testing.assert_array_equal(np.concatenate(self.part.x), np.concatenate(whole.x))


TestInterrupted = Interrupted.TestCase
TestInterrupted.settings = settings(
    max_examples=8, stateful_step_count=6, deadline=None, derandomize=True, database=None
)
