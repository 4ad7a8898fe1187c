"""A read-only page on loopback: how a run goes, for people, programs and Prometheus."""

from __future__ import annotations

import html
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from dual2.errors import Dual2Error

if TYPE_CHECKING:
    from dual2.parties.status import Board

_HOSTS = ("localhost", "127.0.0.1", "[::1]")
_METRICS = (
    ("sums_total", "counter", "sums"),
    ("rounds_total", "counter", "rounds"),
    ("kkt_residual", "gauge", "kkt"),
    ("kkt_target", "gauge", "target"),
    ("run_seconds", "gauge", "seconds"),
    ("waiting_seconds", "gauge", "waited"),
)
_LINK_METRICS = (
    ("up", "gauge", "up"),
    ("frames_received_total", "counter", "received"),
    ("frames_kept", "gauge", "kept"),
    ("down_seconds", "gauge", "down_for"),
)
"""Name, type and entry of the status of each metric, of the run and of each link."""


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
        f"<td>{word(_link_words(link))}</td>"
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


def _link_words(link: dict[str, Any]) -> str:
    """Whether a link is up, and why not."""
    if link["up"]:
        return "up"
    return f"down for {link['down_for']} s" + (f": {link['why']}" if link.get("why") else "")


def metrics(now: dict[str, Any]) -> str:
    """The status in the text format of Prometheus.

    Examples
    --------
    >>> link = {"peer": "east", "up": True, "received": 7, "kept": 1, "down_for": 0.0}
    >>> text = metrics({"party": "lab", "run": "r", "state": "running", "sums": 3, "links": [link]})
    >>> print(text.splitlines()[-1])
    dual2_link_down_seconds{party="lab",peer="east"} 0.0
    """
    own = f'party="{_escaped(now["party"])}"'
    lines = [
        "# TYPE dual2_run_info gauge",
        f'dual2_run_info{{{own},run="{_escaped(now["run"])}",state="{_escaped(now["state"])}"}} 1',
    ]
    for name, kind, key in _METRICS:
        if now.get(key) is not None:
            lines += [f"# TYPE dual2_{name} {kind}", f"dual2_{name}{{{own}}} {now[key]}"]
    for name, kind, key in _LINK_METRICS:
        lines.append(f"# TYPE dual2_link_{name} {kind}")
        for link in now.get("links", []):
            peer, value = _escaped(link["peer"]), link[key]
            value = int(value) if isinstance(value, bool) else value
            lines.append(f'dual2_link_{name}{{{own},peer="{peer}"}} {value}')
    return "\n".join(lines) + "\n"


def _escaped(text: Any) -> str:
    """A label of a metric."""
    return str(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def health(now: dict[str, Any]) -> str:
    """Whether the process is at work; a peer that is missing is no reason to restart this one."""
    links = now.get("links", [])
    return json.dumps({"state": now["state"], "links": len(links), "up": _up(links)})


def _up(links: list[dict[str, Any]]) -> int:
    """How many links are up."""
    return sum(bool(link["up"]) for link in links)


_VIEWS = {
    "/": ("text/html; charset=utf-8", page),
    "/status.json": ("application/json", json.dumps),
    "/metrics": ("text/plain; version=0.0.4; charset=utf-8", metrics),
    "/health": ("application/json", health),
}
"""What is answered, by path."""


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
            known = _VIEWS.get(self.path)
            if host not in (*_HOSTS, address[0]) or known is None:
                self.send_error(403 if known else 404)
                return
            kind, view = known
            body = view(dict(board.now)).encode()
            self.send_response(200)
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
