"""How a run goes: a line, a small file, and a read-only page on loopback that refreshes itself."""

import html
import json
import math
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from dual2.errors import Dual2Error
from dual2.files import read_json
from dual2.parties.party import Party
from dual2.runtime.peers.connection_manager import ConnectionManager
from dual2.runtime.peers.parties import Parties

_HOSTS = ("localhost", "127.0.0.1", "[::1]")


class Board:
    """What an observer of one party may know; no values but the public residual."""

    def __init__(self, file: Path, party: Party) -> None:
        self.file = file
        self._party, self._begun = party, time.monotonic()
        self._kkt: list[tuple[float, float]] = []
        self.now: dict[str, Any] = {
            "party": party.name,
            "run": party.study.name,
            "state": "starting",
        }
        self.transport: Parties | None = None
        self.unwritten = ""

    def tell(self, info: dict[str, Any]) -> None:
        """A stopping test was made; a callback of ``solve``."""
        self._kkt.append((time.monotonic(), float(info["kkt"])))

    def refresh(self, manager: ConnectionManager) -> str:
        """Look at the links and sums; the line to print."""
        with manager.changed:
            links = [
                {
                    "peer": link.name,
                    "up": peer in manager.connections,
                    "received": link.next_in - 1,
                    "kept": len(link.out),
                    "why": manager.refusals.get(peer, ""),
                    "down_for": 0.0
                    if peer in manager.connections
                    else round(time.monotonic() - manager.down_since[peer], 1),
                }
                for peer, link in manager.links.items()
            ]
        progress = self.transport.progress if self.transport else None
        kkt = self._kkt[-1][1] if self._kkt else None
        tol = float(self._party.study.public.options.get("tol", 1e-8))
        waiting = progress.waiting if progress else ""
        waited = time.monotonic() - progress.since if progress and waiting else 0.0
        self.now |= {
            "state": "running" if progress and progress.sums else "connecting",
            "process": os.getpid(),
            "time": time.time(),
            "seconds": round(time.monotonic() - self._begun, 1),
            "sums": progress.sums if progress else 0,
            "rounds": progress.rounds if progress else 0,
            "kkt": kkt,
            "target": tol,
            "time_left": self._left(tol),
            "waiting": waiting,
            "waited": round(waited, 1),
            "links": links,
        }
        self._write()
        line = f"sum {self.now['sums']}"
        line += f", residual {kkt:.1e} (target {tol:g})" if kkt is not None else ""
        line += f", waiting for {waiting} {waited:.0f} s" if waited >= 1 else ""
        whys = [f" ({link['why']})" for link in links if link["why"] and link["peer"] == waiting]
        line += whys[0] if whys and waited >= 1 else ""
        return f"{line}. {self.unwritten}" if self.unwritten else line

    def _left(self, tol: float) -> float | None:
        """Seconds to the target if the residual falls as it did so far; None if it does not."""
        points = [(t, k) for t, k in self._kkt if 0 < k < math.inf]
        if len(points) < 3 or not points[-1][1] < points[0][1]:
            return None
        speed = math.log(points[0][1] / points[-1][1]) / max(points[-1][0] - points[0][0], 1e-9)
        return round(max(0.0, math.log(points[-1][1] / tol) / speed), 1)

    def finish(self) -> None:
        """The process ends."""
        self.now["state"] = "ended"
        self._write()

    def _write(self) -> None:
        """Best effort: a full disk must not end a run because of its status."""
        new = self.file.with_name(f".{self.file.name}.new")
        try:
            new.write_text(json.dumps(self.now))
            os.replace(new, self.file)
            self.unwritten = ""
        except OSError as error:
            self.unwritten = f"{self.file} cannot be written: {error.strerror or error}"


def read_status(party: Party) -> dict[str, Any]:
    """What a running party says about itself; an error where none runs."""
    file = party.state / "status.json"
    if not file.exists():
        raise Dual2Error(f"{party.state} has no status: {party.name} was never started.")
    found = read_json(file)
    if not isinstance(found, dict) or "state" not in found:
        raise Dual2Error(f"{file} is no status of a party.")
    if found["state"] != "ended" and time.time() - float(found.get("time", 0)) > 30:
        found["state"] = "gone"
    return found


def page(now: dict[str, Any]) -> str:
    """The status as HTML that refreshes itself every two seconds."""
    word = lambda value: html.escape(str(value))  # noqa: E731
    kkt = now.get("kkt")
    left = now.get("time_left")
    rows = [
        ("run", now["run"]),
        ("state", now["state"]),
        ("sums", now.get("sums", 0)),
        ("rounds", now.get("rounds", 0)),
        ("KKT residual", "not known yet" if kkt is None else f"{kkt:.2e}"),
        ("target", f"{now.get('target', 0):g}"),
        ("time left", "not known yet" if left is None else f"about {left:.0f} s"),
        ("waiting for", f"{now['waiting']} ({now['waited']:.0f} s)" if now.get("waiting") else "–"),
    ]
    head = "<tr><th>peer</th><th>link</th><th>frames received</th><th>frames kept</th></tr>"
    links = "".join(
        f'<tr class="{"up" if link["up"] else "down"}"><td>{word(link["peer"])}</td>'
        f"<td>{'up' if link['up'] else 'down for ' + str(link['down_for']) + ' s'}</td>"
        f"<td>{link['received']}</td><td>{link['kept']}</td></tr>"
        for link in now.get("links", [])
    )
    facts = "".join(f"<tr><th>{word(k)}</th><td>{word(v)}</td></tr>" for k, v in rows)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta http-equiv="refresh" content="2">'
        f"<title>{word(now['party'])} – {word(now['state'])}</title>"
        "<style>body{font:16px system-ui;margin:2em}table{border-collapse:collapse;margin:1em 0}"
        "td,th{padding:.3em .8em;text-align:left;border-bottom:1px solid #ccc}"
        ".down td{color:#a00}</style></head><body>"
        f"<h1>{word(now['party'])}</h1><table id=facts>{facts}</table>"
        f"<table id=links>{head}{links}</table></body></html>"
    )


@contextmanager
def serve(address: tuple[str, int] | None, board: Board) -> Iterator[int]:
    """Show the board at an address of loopback while the block runs; yields the port."""
    if address is None:
        yield 0
        return

    class Handler(BaseHTTPRequestHandler):
        timeout = 5

        def do_GET(self) -> None:
            host = self.headers.get("Host", "").rpartition(":")[0] or self.headers.get("Host", "")
            known = {"/": page, "/status.json": json.dumps}.get(self.path)
            if host not in (*_HOSTS, address[0]) or known is None:
                self.send_error(403 if known else 404)
                return
            body = known(dict(board.now)).encode()
            self.send_response(200)
            kind = "text/html; charset=utf-8" if self.path == "/" else "application/json"
            for name, value in (
                ("Content-Type", kind),
                ("Content-Length", str(len(body))),
                ("Cache-Control", "no-store"),
                ("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'"),
            ):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    try:
        server = ThreadingHTTPServer(address, Handler)
    except OSError as error:
        raise Dual2Error(f"The status page cannot listen at {address}: {error}.") from error
    server.daemon_threads = True
    board.now["page"] = server.server_address[1]
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True
    )
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
