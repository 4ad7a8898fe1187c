"""Runs are made once, whatever interrupts them; what cannot be run is said, not lost."""

import math
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from dual2.bench.case import Case
from dual2.bench.harness import run_cases
from dual2.bench.run_case import run_case
from dual2.bench.store import Store
from dual2.errors import Dual2Error
from dual2.solving import driver
from dual2.solving.interrupts import ENDING
from dual2.solving.result import Result, Status
from dual2.solving.stopping import StoppingTest
from mpi_runs import ignoring, variables
from ready import PYTHON

DEADLINE = 300
"""Seconds after which a process that should have ended hangs, also on a busy machine."""

SMALL = {"n": 4, "p": 3, "d": 2, "network": {"build": "ring"}}


def case(label="iD2A", problem="random", options=SMALL, seed=0, notes=None, **solve):
    return Case("demo", label, problem, options, {"method": label, **solve}, seed, notes or {})


def same(one, two):
    """Whether two runs agree in everything but time."""
    names = ("case", "status", "counts", "certificate", "parameters", "facts", "predicted")
    traces = (one.trace, two.trace)
    return all(getattr(one, name) == getattr(two, name) for name in names) and all(
        np.array_equal(traces[0][name], traces[1][name]) for name in one.trace if name != "seconds"
    )


def test_parallel_and_serial_runs_agree_and_say_how_they_were_made(tmp_path):
    cases = [case(), case("NPGA-ED"), case(seed=1), case("MiD2A")]
    serial, parallel = Store(tmp_path / "1"), Store(tmp_path / "2")
    assert run_cases(cases, serial, workers=1).ran == 4
    assert run_cases(cases, parallel, workers=2).ran == 4
    pairs = list(zip(serial.runs(), parallel.runs(), strict=True))
    assert [one.case for one, _ in pairs] == cases
    assert all(same(one, two) for one, two in pairs)
    assert {run.machine["workers"] for run in parallel.runs()} == {2}
    assert {run.machine["threads"] for run in parallel.runs()} == {"1"}
    assert {run.machine["workers"] for run in serial.runs()} == {1}


def test_what_cannot_run_is_stored_with_the_reason(tmp_path):
    store = Store(tmp_path)
    cases = [case("DCDA", reduce=False), case(options=SMALL | {"n": 0}), case("NPGA-ED")]
    outcome = run_cases(cases, store, workers=1)
    assert outcome.ran == 3 and outcome.exit_code == 3
    assert "h must be the indicator of a point" in outcome.skipped[0].reason
    assert outcome.failed[0].reason.startswith("Dual2Error: n = 0 found; expected")
    again = run_cases(cases, store, workers=1)
    assert (again.ran, again.kept) == (1, 2), "only the failed run is tried again"


def test_a_worker_that_dies_takes_only_its_own_run_with_it(tmp_path, monkeypatch):
    """One reads a problem that kills the process (as the system does when memory runs out)."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys, dual2.bench.builders as b\nb.BUILDERS['exp1'] = lambda seed: os._exit(9)\n"
    )
    cases = [case("A", "exp1", {}, method="iD2A"), case(), case(seed=1), case(seed=2)]
    outcome = run_cases(cases, Store(tmp_path), workers=2)
    assert [run.case.label for run in outcome.failed] == ["A"] and outcome.ran == 4
    assert "died (exit code 9)" in outcome.failed[0].reason


def test_finished_runs_are_kept_and_force_makes_them_again(tmp_path):
    store, one = Store(tmp_path), case()
    run_cases([one], store, workers=1)
    file = tmp_path / "runs" / f"{one.key}.json"
    before = file.stat().st_mtime_ns
    assert run_cases([one, one], store, workers=1).kept == 1
    assert file.stat().st_mtime_ns == before
    assert run_cases([one], store, workers=1, force=True).ran == 1
    assert file.stat().st_mtime_ns != before


def test_two_runs_that_would_look_the_same_are_refused(tmp_path):
    with pytest.raises(Dual2Error, match="have the label 'iD2A'"):
        run_cases([case(), case(tol=1e-3)], Store(tmp_path))
    with pytest.raises(Dual2Error, match="workers = 0 found"):
        run_cases([case()], Store(tmp_path), workers=0)


def test_a_store_takes_runs_from_one_process_at_a_time(tmp_path):
    with Store(tmp_path).claimed(), pytest.raises(Dual2Error, match="Another process is making"):
        run_cases([case()], Store(tmp_path), workers=1)
    assert not Store(tmp_path).groups()
    assert str(run_cases([case()], Store(tmp_path), workers=1)) == "1 run made, 0 kept"


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(Dual2Error, match=r"cannot hold stored runs: .* Name another folder"):
        run_cases([case()], Store(tmp_path / "file" / "deep"), workers=1)


def test_an_interrupt_keeps_what_is_finished(tmp_path, monkeypatch):
    """Ctrl-C in the second of three runs, in the warm-up or in the middle."""
    from dual2.bench import run_case as module

    whole, calls = module.solve, []

    def interrupted(*args, **kwargs):
        calls.append(kwargs["seed"])
        result = whole(*args, **kwargs)
        if kwargs["seed"] != 1:
            return result
        return Result(**vars(result) | {"status": Status.INTERRUPTED})

    monkeypatch.setattr(module, "solve", interrupted)
    cases = [case(seed=seed) for seed in range(3)]
    outcome = run_cases(cases, Store(tmp_path), workers=1)
    assert outcome.interrupted and outcome.exit_code == 130
    assert (outcome.ran, outcome.missing) == (1, 2) and calls == [0, 0, 1]
    monkeypatch.undo()
    outcome = run_cases(cases, Store(tmp_path), workers=1)
    assert (outcome.kept, outcome.ran, outcome.missing) == (1, 2, 0)


def test_parameters_are_searched_for_and_the_search_is_recorded():
    tuned = case("DC-ADMM", notes={"tune": {"budget": 60}}, max_rounds=300)
    run = run_case(tuned, {})
    value, source = run.parameters["c"]
    assert source.startswith("tuned: best of") and run.tuning["summary"] == source
    assert run.tuning["budget"] == 60 and len(run.tuning["trials"]) >= 7
    assert value in [trial["parameters"]["c"] for trial in run.tuning["trials"]]


def test_the_clock_stands_still_while_the_trace_is_recorded(monkeypatch):
    """With a clock that only recording moves, no time passes."""
    now, observe = [0.0], StoppingTest.observe

    def slow(self, *args):
        now[0] += 1000.0
        return observe(self, *args)

    monkeypatch.setattr(driver, "working_clock", lambda: now[0])
    monkeypatch.setattr(StoppingTest, "observe", slow)
    run = run_case(case(), {})
    assert now[0] >= 1000.0 * len(run.trace["rounds"]) and run.seconds == 0.0
    assert not run.trace["seconds"].any()


def test_the_trace_is_sampled_geometrically():
    run = run_case(case("NPGA-ED", tol=0.0, atol=1e-300, max_rounds=20_000), {})
    rounds = run.trace["rounds"][run.trace["rounds"] > 100]
    ratios = rounds[1:] / rounds[:-1]
    assert ratios[:-1].min() > 1.01 and ratios.max() < 1.06
    assert len(run.trace["rounds"]) < 100 + math.log(200) / math.log(1.02)


CONFIG = """
seeds = [0, 1, 2, 3]
[solve]
tol = 1e-6
max_rounds = 2_000
[[problems]]
build = "random"
n = 8
[[networks]]
build = "path"
[[methods]]
method = "NPGA-ED"
[[methods]]
method = "NPGA-EXTRA"
"""

GATE = """
import functools, time
import dual2.bench.builders as b
random = b.BUILDERS["random"]
@functools.wraps(random)
def gated(seed, *args, **options):
    while seed == 3:
        time.sleep(60)
    return random(seed, *args, **options)
b.BUILDERS["random"] = gated
"""
"""Two of the eight runs cannot end by themselves: who waits for the others is never too late."""

COMMAND = """
import os, sys
os.environ["PYTHONPATH"] = os.pathsep.join([sys.argv.pop(1), *sys.path])
from dual2.cli import main
main()
"""
"""The workers find the gate by their path."""

CAN_END = 6


def start(config, out, gate, ignored=(), workers=2):
    """The command with its gate; standard output stays open as long as any of its processes."""
    (gate / "sitecustomize.py").write_text(GATE)
    command = [*PYTHON, "-c", GATE + COMMAND, str(gate), "bench", str(config), "--out", str(out)]
    command += ["--workers", str(workers)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with ignoring(*ignored):
        return subprocess.Popen(command, **pipes, env=variables())


def finished(out):
    return {
        file.name: (file.stat().st_mtime_ns, file.read_bytes()) for file in out.glob("runs/*.json")
    }


def until(more, process, out):
    """Wait until so many runs are stored."""
    end = time.monotonic() + DEADLINE
    while len(finished(out)) < more:
        assert process.poll() is None, process.communicate()[0].decode()
        assert time.monotonic() < end, f"{len(finished(out))} runs of {more} after {DEADLINE} s"
        time.sleep(0.02)


def test_an_interrupted_and_a_killed_benchmark_continue_where_they_stopped(tmp_path):
    config, out = tmp_path / "c.toml", tmp_path / "out"
    config.write_text(CONFIG)
    process = start(config, out, tmp_path, {signal.SIGINT})  # as a script's background job has it
    until(1, process, out)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=DEADLINE)[0].decode()
    assert process.returncode == 130 and "run the same command to continue" in said
    first = finished(out)
    assert 1 <= len(first) <= CAN_END

    process = start(config, out, tmp_path)
    until(min(len(first) + 1, CAN_END), process, out)
    process.kill()
    process.communicate(timeout=DEADLINE)  # ends when the last worker has: none outlives its parent
    second = finished(out)
    assert len(second) <= CAN_END and first.items() <= second.items()

    from dual2.bench.config import read_config

    cases = read_config(config).cases
    outcome = run_cases(cases, Store(out), workers=1)
    assert (outcome.kept, outcome.ran) == (len(second), 8 - len(second))
    assert second.items() <= finished(out).items() and len(finished(out)) == 8
    assert all(same(run, run_case(run.case, {})) for run in Store(out).runs())


@pytest.mark.parametrize("number", ENDING[1:], ids=lambda number: number.name)
def test_a_command_decides_itself_what_a_signal_means(tmp_path, number):
    """Scripts start background jobs with signals ignored; only SIGHUP may be (``nohup``)."""
    config, out = tmp_path / "c.toml", tmp_path / "out"
    config.write_text(CONFIG)
    process = start(config, out, tmp_path, {signal.SIGTERM} & {number}, workers=1)
    until(1, process, out)
    process.send_signal(number)
    process.communicate(timeout=DEADLINE)
    assert process.returncode == 130
    assert 1 <= len(finished(out)) <= CAN_END
