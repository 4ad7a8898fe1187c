"""``study.toml``: what all parties have agreed on, the same bytes everywhere.

::

    run = "stroke-2026-03"
    problem = "problem"               # folder with problem.toml (h, network, options)
    sums = { masked = true, matrices = false }
    carrier = "tls"                   # or "grpc", for proxies that want HTTP/2
    threshold = 6                     # optional: so many parties are enough, if others are missing

    [[parties]]                       # in the order of the agents
    name = "hospital"
    certificate = "hospital.pem"
    fingerprint = "b52c…"             # SHA-256 of the certificate
    next_certificate = "new.pem"      # optional, with next_fingerprint: accepted as well
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any

import networkx as nx

from dual2.errors import Dual2Error, unknown_name
from dual2.files import read_bytes, read_toml
from dual2.methods.registry import find_method
from dual2.network import Network
from dual2.parties.names import demand_name
from dual2.runtime.peers.claims import MAX_CLAIMS, Claim
from dual2.runtime.peers.frames import MARK
from dual2.runtime.peers.identity import fingerprint, read_certificate
from dual2.solving.storage import load_public
from dual2.solving.storage.problem_folder import PUBLIC_FILES, Public
from dual2.solving.version import versions

CARRIERS = ("tls", "grpc")
"""What may carry frames: TLS 1.3 alone, or gRPC."""
MAX_PARTIES = 32
"""All pairs of parties share masks; their number grows with the square."""
TWO = (
    "two parties: masked sums hide nothing from the other one. Continue with sums.masked = false, "
    "or add a third."
)


def entries(
    document: Any, where: str, needed: dict[str, type], optional: dict[str, type]
) -> dict[str, Any]:
    """A table whose entries have the expected names and types; an error names the first wrong one.

    Examples
    --------
    >>> entries({"run": 3}, "study.toml", {"run": str}, {})
    Traceback (most recent call last):
    dual2.errors.Dual2Error: study.toml: run is 3; expected str.
    """
    if not isinstance(document, dict):
        raise Dual2Error(f"{where} is {document!r}; expected a table.")
    known = needed | optional
    for name in document:
        if name not in known:
            raise Dual2Error(f"{where}: {unknown_name('entry', name, known)}")
    for name in needed:
        if name not in document:
            raise Dual2Error(f"{where} lacks {name}; expected {', '.join(needed)}.")
    for name, value in document.items():
        kinds = (int, float) if known[name] is float else (known[name],)
        if type(value) not in kinds:
            raise Dual2Error(f"{where}: {name} is {value!r}; expected {known[name].__name__}.")
    return document


@dataclass(frozen=True)
class Member:
    """A party as the study knows it; ``ders`` are its certificates, the next one last."""

    name: str
    ders: tuple[bytes, ...]
    accepts: bool = True

    @property
    def der(self) -> bytes:
        """The present certificate."""
        return self.ders[0]

    @property
    def fingerprints(self) -> tuple[str, ...]:
        """Of the certificates."""
        return tuple(map(fingerprint, self.ders))


@dataclass(frozen=True)
class Study:
    """A study that was read and checked.

    Attributes
    ----------
    masked, matrices : bool
        Whether sums are masked, and whether p × p matrices may be summed.
    carrier : str
        What carries the frames: one of ``CARRIERS``.
    needed : int
        How many parties must be there; fewer than all if the study has a threshold.
    claims : tuple of Claim
        About the missing parties, without which this run goes on.
    excluded : tuple of Member
        The missing parties.
    """

    file: Path
    name: str
    folder: Path
    members: tuple[Member, ...]
    masked: bool
    matrices: bool
    public: Public
    carrier: str
    needed: int = field(default=0, kw_only=True)
    claims: tuple[Claim, ...] = field(default=(), kw_only=True)
    excluded: tuple[Member, ...] = field(default=(), kw_only=True)

    @property
    def names(self) -> list[str]:
        """Of all parties, in the order of the agents."""
        return [member.name for member in self.members]

    @property
    def network(self) -> Network:
        """The public graph."""
        return self.public.network

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the study and of the public files of the problem."""
        return _digest(self.file, self.folder)

    @property
    def run(self) -> bytes:
        """16 bytes that name this run of this study."""
        text = self.name.encode() + b"\0" + self.digest
        for member in self.excluded:
            text += b"\0" + member.name.encode()
        return hashlib.blake2b(text, digest_size=MARK).digest()

    def without(self, names: Sequence[str], claims: tuple[Claim, ...] = ()) -> "Study":
        """The study of the other parties, on what remains of the graph."""
        kept = [i for i, name in enumerate(self.names) if name not in names]
        graph = nx.empty_graph(len(kept))
        at = {i: k for k, i in enumerate(kept)}
        pairs = [(at[i], at[j]) for i, j in self.network.edges.tolist() if i in at and j in at]
        graph.add_edges_from(pairs)
        return replace(
            self,
            members=tuple(self.members[i] for i in kept),
            public=self.public._replace(network=Network(graph)),
            claims=claims,
            excluded=tuple(member for member in self.members if member.name in names),
        )

    def neighbours(self, me: int) -> list[int]:
        """Numbers of the parties that a party talks to."""
        edges = self.network.edges
        return sorted({int(j) for edge in edges if me in edge for j in edge} - {me})

    def dials(self, me: int, other: int) -> bool:
        """Whether ``me`` dials ``other``: the higher number does, unless one accepts nothing."""
        if self.members[other].accepts != self.members[me].accepts:
            return self.members[other].accepts
        return me > other


def read_study(file: Path) -> Study:
    """Read a study and all that it names; an error says what is wrong with it."""
    where = str(file)
    table = entries(
        read_toml(file),
        where,
        {"run": str, "problem": str, "parties": list},
        {"sums": dict, "carrier": str, "threshold": int},
    )
    sums = entries(table.get("sums", {}), f"{where}: sums", {}, {"masked": bool, "matrices": bool})
    members = read_members(table["parties"], where, file.parent)
    folder = beside(file.parent, table["problem"], f"{where}: problem")
    before = _digest(file, folder)
    study = Study(
        file,
        table["run"],
        folder,
        members,
        sums.get("masked", True),
        sums.get("matrices", False),
        load_public(folder),
        read_carrier(table, where),
        needed=_threshold(table, len(members), where),
    )
    if study.digest != before or read_toml(file) != table:
        raise Dual2Error(f"{where} or {folder} was changed while it was read. Start again.")
    check_members(study, where)
    _check_options(study, where)
    return study


def _threshold(table: dict[str, Any], n: int, where: str) -> int:
    """How many parties are enough: more than half, so that no two groups go on apart."""
    found = table.get("threshold", n)
    least = max(3, n // 2 + 1, n - MAX_CLAIMS)
    if "threshold" in table and not least <= found <= n:
        raise Dual2Error(f"{where}: threshold is {found}; expected {least} to {n} of {n} parties.")
    return found


def _digest(file: Path, folder: Path) -> bytes:
    total = hashlib.sha256()
    for one in (file, *(folder / name for name in PUBLIC_FILES)):
        data = read_bytes(one) if one.exists() else b""
        total.update(len(data).to_bytes(8, "little") + data)
    return total.digest()


def beside(folder: Path, name: str, where: str) -> Path:
    """A file that a study names, which others have written: beside it or below, nowhere else.

    Examples
    --------
    >>> beside(Path("study"), "../key.pem", "study.toml: certificate")
    Traceback (most recent call last):
    dual2.errors.Dual2Error: study.toml: certificate is '../key.pem'; expected a name beside ...
    """
    parts = PurePath(name).parts
    if not parts or PurePath(name).is_absolute() or ".." in parts:
        raise Dual2Error(f"{where} is {name!r}; expected a name beside the study, without '..'.")
    return folder / name


def read_carrier(table: dict[str, Any], where: str) -> str:
    """What carries the frames of a study."""
    found = table.get("carrier", CARRIERS[0])
    if found not in CARRIERS:
        raise Dual2Error(f"{where}: {unknown_name('carrier', found, CARRIERS)}")
    return found


def read_members(parties: list[Any], where: str, folder: Path) -> tuple[Member, ...]:
    """The parties of a study, whose certificates are in ``folder``."""
    return tuple(_member(one, f"{where}: parties[{k}]", folder) for k, one in enumerate(parties))


def _member(entry: Any, where: str, folder: Path) -> Member:
    found = entries(
        entry,
        where,
        {"name": str, "fingerprint": str, "certificate": str},
        {"accepts": bool, "next_certificate": str, "next_fingerprint": str},
    )
    demand_name(found["name"], f"{where}: name")
    if ("next_certificate" in found) != ("next_fingerprint" in found):
        raise Dual2Error(f"{where} needs both of next_certificate and next_fingerprint, or none.")
    whens = ("", "next_") if "next_certificate" in found else ("",)
    ders = []
    for when in whens:
        file, said = found[f"{when}certificate"], found[f"{when}fingerprint"]
        ders.append(read_certificate(beside(folder, file, f"{where}: {when}certificate")))
        if fingerprint(ders[-1]) != said.lower().replace(":", ""):
            raise Dual2Error(
                f"{where}: the fingerprint of {file} is {fingerprint(ders[-1])}, the study says "
                f"{said}. If {found['name']} renewed its certificate, all parties need the new "
                "study file."
            )
    return Member(found["name"], tuple(ders), found.get("accepts", True))


def check_members(study: Study, where: str) -> None:
    """Refuse a study whose name, parties or links cannot be."""
    demand_name(study.name, f"{where}: run")
    n, names = len(study.members), study.names
    if n != study.network.n:
        raise Dual2Error(
            f"{where} has {n} parties; the network of {study.folder} has {study.network.n} nodes. "
            "Expected one party for each, in their order."
        )
    if not 2 <= n <= MAX_PARTIES:
        raise Dual2Error(f"{where} has {n} parties; expected 2 to {MAX_PARTIES}.")
    for what, values in (
        ("name", names),
        ("certificate", [one for member in study.members for one in member.fingerprints]),
    ):
        if len(set(values)) < len(values):
            raise Dual2Error(f"{where}: two parties have the same {what}.")
    if n == 2 and study.masked:
        raise Dual2Error(f"{where}: {TWO}")
    for i, j in study.network.edges.tolist():
        if not (study.members[i].accepts or study.members[j].accepts):
            raise Dual2Error(
                f"{where}: {names[i]} and {names[j]} are neighbours and neither accepts "
                "connections. One of them must."
            )


def _check_options(study: Study, where: str) -> None:
    options = study.public.options
    if str(options.get("method", "auto")).lower() == "auto":
        raise Dual2Error(
            f"{study.folder}/problem.toml names no method; a study needs one (options.method), "
            "since what is shown depends on it."
        )
    method = find_method(options["method"])
    for name in ("time_limit", "sums", "throw"):
        if name in options:
            raise Dual2Error(
                f"{study.folder}/problem.toml: options.{name} found, which runs between parties "
                "cannot use: all that is computed must be the same after a restart. Remove it."
            )
    if shows_matrices(method.name, options) and study.needed < len(study.members):
        raise Dual2Error(
            f"{where}: threshold found, and {method.name} sums p × p matrices. The totals with and "
            "without a missing party would show its matrix. Remove threshold, or choose a method "
            "that sums vectors (options.method, or options.mode = 'primal' for Newton)."
        )
    if shows_matrices(method.name, options) and not study.matrices:
        raise Dual2Error(
            f"{where}: {method.name} sums p × p matrices, whose differences can show a column of "
            "somebody's data. Choose a method that sums vectors (options.method, or options.mode = "
            "'primal' for Newton), or allow it for all parties with sums.matrices = true."
        )


def shows_matrices(method: str, options: dict[str, Any]) -> bool:
    """Whether a method sums p × p matrices over the agents.

    Examples
    --------
    >>> shows_matrices("Newton", {}), shows_matrices("iD2A", {})
    (True, False)
    """
    if method == "Newton":
        return options.get("mode") != "primal"
    return method.startswith("APAPC")


def versions_in_words() -> str:
    """What must be the same everywhere: versions of what computes."""
    return ", ".join(f"{name} {found}" for name, found in versions().items() if name != "python")
