"""The server behind ``ready.PYTHON``: has the package and its kernels loaded, and is forked.

``python ready_server.py ADDRESS`` says ``ready``, loads what it needs while the first stubs wait,
and serves until its standard input ends.
"""

import array
import atexit
import gc
import importlib
import json
import os
import pkgutil
import random
import runpy
import selectors
import signal
import socket
import sys
import threading
import types
from contextlib import suppress
from typing import Any

import warm_up
from dual2.processes import launch
from ready import PASSED_ON, PYTHON

DECIDED = ("PYTHON", "LC_", "LANG", "NUMBA", "DUAL2_", "OMP_", "OPENBLAS", "MKL_", "XDG_", "HOME")
"""How names of variables begin that are read when the package is imported."""
LOADED = (
    "dual2.commands",
    "dual2.processes",
    "dual2.power",
    "dual2.mpc",
    "dual2.parties",
    "dual2.learn",
)


def decided(environment: dict[str, str]) -> dict[str, str]:
    """What a process of this server cannot decide otherwise."""
    return {name: value for name, value in environment.items() if name.startswith(DECIDED)}


class Server:
    """Forks a process for every stub that asks."""

    def __init__(self, address: str) -> None:
        self.door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.door.bind(address)
        self.door.listen(64)
        self.processes: dict[int, socket.socket] = {}
        self.ended, bell = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.selector = selectors.DefaultSelector()
        for one in (self.door, self.ended, sys.stdin):
            self.selector.register(one, selectors.EVENT_READ)
        signal.signal(signal.SIGCHLD, lambda number, _: None)
        signal.set_wakeup_fd(bell)

    def serve(self) -> dict[str, Any] | None:
        """Until standard input ends; in a forked process, what it is to do."""
        ready: set[Any] = set()
        while sys.stdin not in ready:
            ready = {key.fileobj for key, _ in self.selector.select()}
            if self.ended in ready:
                os.read(self.ended, 4096)
                self._reap()
            for pid, stub in list(self.processes.items()):
                if stub in ready:  # it has nothing to say any more: it was killed
                    os.kill(pid, signal.SIGKILL)
                    self._tell(*os.waitpid(pid, 0))
            if self.door in ready and (asked := self._answer(self.door.accept()[0])) is not None:
                return asked
        for pid in self.processes:
            os.kill(pid, signal.SIGKILL)
        return None

    def _reap(self) -> None:
        while self.processes:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            self._tell(pid, status)

    def _tell(self, pid: int, status: int) -> None:
        stub = self.processes.pop(pid)
        self.selector.unregister(stub)
        with suppress(OSError):  # the stub was killed
            stub.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
        stub.close()

    def _answer(self, stub: socket.socket) -> dict[str, Any] | None:
        streams: list[int] = []
        try:
            asked = _hear(stub, streams)
            if decided(asked["environment"]) != decided(dict(os.environ)):
                stub.sendall(b"null\n")
                stub.close()
            elif (pid := os.fork()) == 0:
                self._forget(stub)
                take_over(asked, streams)
                return asked
            else:
                self.processes[pid] = stub
                self.selector.register(stub, selectors.EVENT_READ)
                stub.sendall(b"%d\n" % pid)
        except (OSError, EOFError):  # the stub was killed, which is seen in the next turn
            pass
        for stream in streams:
            os.close(stream)
        return None

    def _forget(self, stub: socket.socket) -> None:
        """What a forked process does not inherit."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self.selector.close()
        for one in (self.door, stub, *self.processes.values()):
            one.close()


def _hear(stub: socket.socket, streams: list[int]) -> dict[str, Any]:
    """What a stub asks for; its standard streams."""
    head, sent, _, _ = stub.recvmsg(8, socket.CMSG_SPACE(12))
    for _, _, numbers in sent:
        streams.extend(array.array("i", numbers))
    words = b""
    while len(words) < int.from_bytes(head, "little"):
        if not (more := stub.recv(1 << 20)):
            raise EOFError
        words += more
    if not words:
        raise EOFError
    return json.loads(words)


def take_over(asked: dict[str, Any], streams: list[int]) -> None:
    """Streams, signals, variables, folder."""
    for k, (name, stream) in enumerate(zip(("stdin", "stdout", "stderr"), streams, strict=True)):
        os.dup2(stream, k)
        os.close(stream)
        old = getattr(sys, name)
        lines = 1 if name == "stderr" or os.isatty(k) else -1
        new = open(k, old.mode, lines, old.encoding, old.errors, closefd=False)
        setattr(sys, name, new)
        setattr(sys, f"__{name}__", new)
    for number in PASSED_ON:
        usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        signal.signal(number, signal.SIG_IGN if number in asked["ignored"] else usual)
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["folder"])
    random.seed()


def run(kind: str, *rest: str) -> None:
    """Run a program as Python would."""
    if kind == "-c":
        sys.argv, sys.path[0] = ["-c", *rest[1:]], ""
        sys.modules["__main__"] = main = types.ModuleType("__main__")
        exec(compile(rest[0], "<string>", "exec"), vars(main))
    elif kind == "-m":
        sys.argv, sys.path[0] = list(rest), os.getcwd()
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv, sys.path[0] = [kind, *rest], os.path.dirname(os.path.abspath(kind))
        runpy.run_path(kind, run_name="__main__")


def run_and_leave(*arguments: str) -> None:
    """Run a program; where it ends well or by an exit code, leave all that is loaded to the system.

    The interpreter would take it apart first, which takes longer than most programs.
    """
    code = None
    try:
        run(*arguments)
    except SystemExit as end:
        code = end.code
        if not isinstance(code, int | None):
            raise
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi and mpi.Is_initialized() and not mpi.Is_finalized():
        mpi.Finalize()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit((code or 0) & 0xFF)


def load() -> None:
    """Import what tests start as processes, and load its kernels."""
    for name in LOADED:
        package = importlib.import_module(name)
        for part in pkgutil.walk_packages(getattr(package, "__path__", ()), f"{name}."):
            importlib.import_module(part.name)
    launch.PROGRAM = (*PYTHON, *launch.PROGRAM[1:])
    warm_up.load()
    gc.collect()
    gc.freeze()  # what is never collected is never copied into a forked process on that account


if __name__ == "__main__":
    server = Server(sys.argv[1])
    print("ready", flush=True)
    load()
    if asked := server.serve():
        run_and_leave(*asked["arguments"])
