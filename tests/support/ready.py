"""Processes that have the package loaded already.

A test that starts ``dual2`` waits for more than a second until Python has imported it. ``PYTHON``,
in the place of ``sys.executable``, is a stub that asks a server (``ready_server.py``), which has it
loaded, to fork the process: with the stub's arguments, environment, folder and standard streams.
The stub passes signals on and ends as the process ends; if the stub is killed, so is the process,
at the latest before the server starts another one.

The server runs where several workers do (``conftest.py``). Without it, with flags of the
interpreter, or with other values of variables that are read at import, the stub becomes an ordinary
Python. A process that a test will stop (SIGSTOP) must be an ordinary one.
"""

import array
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Iterator

ADDRESS = "READY_PROCESSES"
"""Variable with the address of the server, if there is one."""
PYTHON = (sys.executable, "-S", "-E", os.path.abspath(__file__))
PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main(arguments: list[str]) -> None:
    """Run a program in a ready process, or in this one as ever."""
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    flags = arguments[:1] not in (["-m"], ["-c"]) and "".join(arguments[:1])[:1] in ("", "-")
    try:
        server.connect("" if flags else os.environ[ADDRESS])
    except (OSError, KeyError):
        become_python(arguments)
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
    ignored = [int(one) for one in PASSED_ON if signal.getsignal(one) == signal.SIG_IGN]
    asked = {"arguments": arguments, "environment": dict(os.environ), "folder": os.getcwd()}
    words = json.dumps(asked | {"ignored": ignored}).encode()
    streams = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))]
    server.sendmsg([len(words).to_bytes(8, "little")], streams)
    server.sendall(words)
    bell, ring = os.pipe()  # a signal that comes just before the stub waits must wake it too
    os.set_blocking(ring, False)
    signal.set_wakeup_fd(ring, warn_on_full_buffer=False)
    answers = lines(server, bell)
    process = next(answers, None)  # nothing: the server could not load
    if process is None:
        become_python(arguments)
    for one in PASSED_ON:
        signal.signal(one, lambda number, _: os.kill(process, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    end(next(answers))


def lines(server: socket.socket, bell: int) -> Iterator[int | None]:
    """What the server says, line by line; between, handlers run for whatever has rung the bell."""
    heard = b""
    while True:
        line, found, rest = heard.partition(b"\n")
        if found:
            heard = rest
            yield json.loads(line)
            continue
        ready = select.select([server, bell], [], [])[0]
        if bell in ready:
            os.read(bell, 64)
        if server in ready:
            if not (more := server.recv(64)):
                return
            heard += more


def become_python(arguments: list[str]) -> None:
    """The interpreter, in this process."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    os.execv(sys.executable, [sys.executable, *arguments])


def end(code: int) -> None:
    """As the process did: with a code or, if it is negative, by a signal."""
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
