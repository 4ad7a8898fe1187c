"""Processes from the server of ready ones behave as ordinary ones, with it and without it."""

import os
import signal
import subprocess

import pytest

from mpi_runs import ignoring, variables
from ready import ADDRESS, PYTHON

TELL = "import os, sys; print(sys.argv, os.getcwd(), os.environ['MARK'], sys.stdin.read())"
LEFT = """
import atexit, threading
atexit.register(print, "last")
late = lambda: (threading.main_thread().join(), print("thread"))
threading.Thread(target=late).start()
print("first")
"""
WAIT = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"


def start(*arguments: str, ignored: tuple = (), **more: str) -> "subprocess.Popen[str]":
    line = [*PYTHON, *arguments]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with ignoring(*ignored):
        return subprocess.Popen(line, **pipes, text=True, env=variables() | more)


@pytest.fixture(params=["server", "none"])
def server(request, monkeypatch):
    if request.param == "none":
        monkeypatch.delenv(ADDRESS, raising=False)


def test_arguments_streams_folder_and_variables(server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said, errors = start("-c", TELL, "a", "b c", MARK="x").communicate("words")
    assert (said, errors) == (f"['-c', 'a', 'b c'] {tmp_path} x words\n", "")


@pytest.mark.parametrize(
    "text, code",
    [("pass", 0), ("raise SystemExit(7)", 7), ("1 / 0", 1), ("raise SystemExit('no')", 1),
     ("import os; os.kill(os.getpid(), 9)", -9), ("import os; os.kill(os.getpid(), 15)", -15)],
)  # fmt: skip
def test_ends(server, text, code):
    process = start("-c", text)
    said = process.communicate()[1]
    assert process.returncode == code
    assert ("ZeroDivisionError" in said) == ("/" in text) and ("no\n" == said) == ("no" in text)


def test_threads_and_what_is_left_to_do_come_before_the_end(server):
    said, errors = start("-c", LEFT).communicate()
    assert (said, errors) == ("first\nthread\nlast\n", "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_reach_the_process(server, number):
    process = start("-c", WAIT)
    process.stdout.readline()
    process.send_signal(number)
    process.communicate()
    assert process.returncode == -number


def test_ignored_signals_stay_ignored(server):
    text = "import signal; print(signal.getsignal(signal.SIGHUP).name)"
    assert start("-c", text, ignored=(signal.SIGHUP,)).communicate()[0] == "SIG_IGN\n"


def test_who_kills_the_stub_kills_the_process(server):
    process = start("-c", WAIT)
    number = int(process.stdout.readline())
    process.kill()
    process.communicate()  # to the end of what the process itself has open
    assert start("-c", "pass").communicate() == ("", "")
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)


def test_another_environment_is_an_ordinary_process():
    text = "import sys; print('dual2' in sys.modules, sys.flags.dev_mode)"
    assert start("-c", text, PYTHONDEVMODE="1").communicate()[0] == "False True\n"


def test_what_is_loaded():
    loaded = "import sys; print('dual2.commands.solving' in sys.modules)"
    assert start("-c", loaded).communicate()[0] == f"{ADDRESS in os.environ}\n"
