"""Signals that no waiting is cut short by: who waits looks up from time to time."""

import signal
import subprocess
import sys
import threading
import time
from multiprocessing import Pipe
from pathlib import Path
from types import SimpleNamespace

import pytest

from dual2.bench import workers
from dual2.processes import launch
from dual2.solving.interrupts import ending_on_request, on_interrupt

MOST = 60.0
"""Seconds after which what is waited for ends by itself."""


def strike(number, begun):
    """Once it has ``begun``, from another thread: the main one is not woken by it."""

    def work():
        while not begun():
            time.sleep(0.01)
        time.sleep(0.2)  # by now the main thread waits; before, it would hear in any case
        signal.pthread_kill(threading.get_ident(), number)

    threading.Thread(target=work, daemon=True).start()


def test_of_a_launcher(tmp_path, monkeypatch):
    text = f"trap 'exit 7' USR1; touch begun; for k in $(seq {MOST:g}0); do sleep 0.1; done; exit 9"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(launch, "find_mpiexec", lambda: "")
    monkeypatch.setattr(launch, "command", lambda mpiexec, ranks, program: list(program))
    strike(signal.SIGTERM, (tmp_path / "begun").exists)
    assert launch.launch(1, ["sh", "-c", text]).code == 7


def test_of_a_crew(monkeypatch):
    """Its only worker says nothing."""
    (line, other), given = Pipe(), threading.Event()
    silent = SimpleNamespace(line=line, give=lambda case: given.set(), stop=lambda: None)
    monkeypatch.setattr(workers, "Worker", lambda folder, size: silent)
    monkeypatch.setattr(workers.Crew, "_hear", lambda self, worker: pytest.fail("not heard"))
    late = threading.Timer(MOST, other.close)
    late.daemon = True
    late.start()
    with pytest.raises(KeyboardInterrupt), ending_on_request():
        strike(signal.SIGINT, given.is_set)
        list(workers.Crew(SimpleNamespace(folder=None), 1).run([None]))
    assert late.is_alive(), "heard only when something else woke it"
    late.cancel()


SHOW = "import signal as s; print([n.name for n in s.Signals if s.getsignal(n) == s.SIG_IGN])"
STARTED = """
import dispositions, os, signal, subprocess, sys
dispositions.restore()
os.kill(os.getpid(), signal.SIGHUP)
print(subprocess.run([sys.executable, "-c", sys.argv[1]], capture_output=True, text=True).stdout)
"""


def test_the_suite_may_be_started_with_signals_ignored():
    """As by ``nohup``, in a script's background, by a supervisor; its own processes are not."""
    script = 'trap "" HUP INT QUIT TERM; exec "$@"'
    line = ["sh", "-c", script, "sh", sys.executable, "-c", STARTED, SHOW]
    folder = Path(__file__).parents[1] / "support"
    found = subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=MOST)
    assert found.returncode == 0, found.stderr
    plain = subprocess.run([sys.executable, "-c", SHOW], capture_output=True, text=True)
    assert found.stdout.strip() == plain.stdout.strip()


def test_a_signal_that_comes_while_handlers_are_installed_is_a_request(monkeypatch):
    """Between the first handler and the block: the earlier handlers come back, nothing fails."""
    asked, install, before = [], signal.signal, signal.getsignal(signal.SIGINT)
    early = []

    def installed(number, new):
        found = install(number, new)
        if number == signal.SIGINT and not early:
            early.append(number)
            new(number, None)
        return found

    monkeypatch.setattr(signal, "signal", installed)
    with on_interrupt(lambda: asked.append(1)):
        assert asked == [1] and early
    assert signal.getsignal(signal.SIGINT) is before
