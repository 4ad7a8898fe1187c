"""``party.toml`` of a learning study: what belongs to one party alone.

::

    name = "lab"
    study = "study.toml"
    key = "lab.key"
    certificate = "lab.pem"
    state = "state"
    listen = "0.0.0.0:7443"

    [peers.hospital]
    address = "dual2.hospital.example:7443"

    [table]
    file = "lab.csv"                  # or .parquet; or sql = "SELECT …" with url = "postgresql://…"
    id = "patient_no"                 # where it is called otherwise than in the study
    missing = "median"                # for all numbers, unless a column says otherwise
    scales = "kept"                   # or "new": other scales than in earlier studies, see docs
    encoding = "cp1252"               # of CSV files; utf-8 unless it is said
    decimal = ","                     # and delimiter = ";"

    [table.columns]
    age = "number"
    smoker = "category"
    crp = { type = "number", missing = "mean", indicator = true }   # and a column "crp missing"
    ward = { type = "category", drop = "first" }
    weight = { type = "number", bins = 5 }     # or splines = 5; at the holder also woe = 5

The holder of the labels adds ``label = "stroke"``, and if it likes ``weight = "copies"`` for sample
weights, ``classes = ["low", "high"]`` for an order of classes; with Cox regression ``label`` is the
time, ``event`` names the column with 1 or 0, ``strata`` one with strata. The noise key of
randomised labels is beside the table (``lab.csv.label-key``), or where ``label_key`` says. It must
stay with the table.
"""

import codecs
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from dual2.errors import Dual2Error, Refusal, unknown_name
from dual2.files import read_toml
from dual2.learn.vertical.learning_terms import GIVEN, HASHES
from dual2.learn.vertical.prepared_columns import (
    BINS,
    CATEGORY,
    FORMS,
    KINDS,
    NUMBER,
    OWN,
    PLAIN,
    POLICIES,
    REFUSE,
    WOE,
    Column,
)
from dual2.learn.vertical.study import LearnStudy, read_learn_study
from dual2.learn.vertical.tables import (
    PLAIN_CSV,
    UNREADABLE,
    CsvFormat,
    Table,
    read_file,
    read_sql,
)
from dual2.parties.party import NEEDED, OPTIONAL, Party, party_of
from dual2.parties.study import entries

_NEEDED = {name: kind for name, kind in NEEDED.items() if name != "data"} | {"table": dict}
_TABLE = ("file", "sql", "url", "id", "label", "missing", "row_key", "label_key", "scales")
_TABLE += ("event", "strata", "weight", "encoding", "decimal", "delimiter")


@dataclass(frozen=True)
class LabelColumns:
    """Columns of the table, by name, that belong to the label, and the order of its classes."""

    event: str | None = None
    strata: str | None = None
    weight: str | None = None
    classes: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """The columns that there are."""
        return [name for name in (self.event, self.strata, self.weight) if name is not None]


@dataclass(frozen=True)
class LearnParty:
    """A party's file, read and checked."""

    party: Party  # its links, keys and state folder
    study: LearnStudy  # what all have agreed on
    columns: tuple[Column, ...]  # features of this party
    id: str  # name of the column
    label: str | None  # name of the column, at the holder alone
    row_key: Path | None  # secret of all parties for keyed hashes, where the study wants them
    label_key: Path | None  # secret of the label table, at the holder alone
    read: Callable[[], Table]  # reads the party's own table, or that of new rows
    beside: LabelColumns = LabelColumns()  # what belongs to the label, at the holder alone
    csv: CsvFormat = PLAIN_CSV  # how the party writes its CSV files
    scales: Path | None = None  # record of the columns' scales; None if the party wants new ones

    @cached_property
    def table(self) -> Table:
        """The party's own table; that it cannot be read is told to the others."""
        try:
            return self.read()
        except Refusal:
            raise
        except Dual2Error as error:
            raise Refusal(str(error), UNREADABLE) from error

    @property
    def holds_labels(self) -> bool:
        """Whether this is the party that the study names."""
        return self.party.me == self.study.learning.holder

    def at(self, phase: str) -> Party:
        """The party in one of the runs of the study, with a state folder for it."""
        state = self.party.state / phase
        return replace(self.party, study=self.study.at(phase), state=state)

    def used(self, labelled: bool = True) -> list[str]:
        """Columns of the table that are read."""
        names = [column.name for column in self.columns]
        names += [self.id] if self.study.learning.rows.policy != GIVEN else []
        return names + ([self.label, *self.beside.names] if labelled and self.label else [])

    def check_label(self) -> None:
        """The label is at the party that the study names, and only there."""
        holder = self.study.names[self.study.learning.holder]
        if self.label is not None and not self.holds_labels:
            raise Refusal(
                f"{self.party.file}: table.label is {self.label!r}, but {holder} holds the labels "
                "of this study. Remove it, or change the study for all.",
                f"it has a label too, but {holder} holds the labels of this study.",
            )
        if self.label is None and self.holds_labels:
            raise Refusal(
                f"{self.party.file} lacks table.label: {holder} holds the labels of this study.",
                "it holds the labels, but its own file does not say in which column.",
            )


def read_learn_party(file: Path) -> LearnParty:
    """Read ``party.toml`` and the study; an error says what is wrong and where."""
    where = str(file)
    optional = {name: kind for name, kind in OPTIONAL.items() if name != "data"}
    table = entries(read_toml(file), where, _NEEDED, optional)
    study = read_learn_study(file.parent / table["study"])
    party = party_of(table | {"data": file.name}, file, study)
    study = replace(study, members=party.study.members)  # without revoked certificates
    kinds = dict.fromkeys(_TABLE, str) | {"columns": dict, "classes": list}
    own = entries(table["table"], f"{where}: table", {}, kinds)
    label = own.get("label")
    columns = _columns(own, where)
    if not columns and label is None:
        raise Dual2Error(f"{where}: table.columns is empty; expected at least one feature.")
    beside = _beside(own, where)
    taken = {label, own.get("id", study.learning.rows.id), *beside.names}
    for name in taken & {c.name for c in columns}:
        raise Dual2Error(
            f"{where}: {name!r} is the id or belongs to the label, and is a feature as well."
        )
    if study.learning.rows.policy == HASHES and "row_key" not in own:
        raise Dual2Error(
            f"{where} lacks table.row_key: the file with the secret of all parties, from which "
            "hashes of ids are made. One party makes it: openssl rand -hex 32 > rows.key"
        )
    return LearnParty(
        party,
        study,
        columns,
        own.get("id", study.learning.rows.id),
        label,
        file.parent / own["row_key"] if "row_key" in own else None,
        _label_key(own, file) if label is not None else None,
        _source(own, file),
        beside,
        _csv_format(own, where),
        _scales(own, file),
    )


def _beside(own: dict[str, Any], where: str) -> LabelColumns:
    """What the holder says about its label; nobody else may."""
    found = LabelColumns(
        own.get("event"),
        own.get("strata"),
        own.get("weight"),
        tuple(str(name) for name in own.get("classes", [])),
    )
    if (found.names or found.classes) and "label" not in own:
        raise Dual2Error(
            f"{where}: table.event, strata, weight and classes belong to a label. Add table.label "
            "if this party holds the labels, or remove them."
        )
    return found


def _scales(own: dict[str, Any], file: Path) -> Path | None:
    """Where the scales of columns are recorded: beside the table, whichever study reads it."""
    wanted = own.get("scales", "kept")
    if wanted not in ("kept", "new"):
        raise Dual2Error(f"{file}: table.{unknown_name('scales', wanted, ('kept', 'new'))}")
    if wanted == "new":
        return None
    table = file.parent / own["file"] if "file" in own else file.parent / "table"
    return table.with_name(f"{table.name}.scales.json")


def _label_key(own: dict[str, Any], file: Path) -> Path:
    """Where the noise key of the labels is: beside the table, whichever study reads it."""
    if "label_key" in own:
        return file.parent / own["label_key"]
    if "file" in own:
        table = file.parent / own["file"]
        return table.with_name(f"{table.name}.label-key")
    return file.parent / "labels.label-key"


def _columns(own: dict[str, Any], where: str) -> tuple[Column, ...]:
    found = []
    default = own.get("missing", REFUSE)
    for name, entry in own.get("columns", {}).items():
        at = f"{where}: table.columns.{name}"
        entry = {"type": entry} if isinstance(entry, str) else entry
        found.append(_column(name, entry, at, default))
    if default not in POLICIES[NUMBER]:
        raise Dual2Error(f"{where}: table.{unknown_name('missing', default, POLICIES[NUMBER])}")
    return tuple(found)


def _column(name: str, entry: dict[str, Any], at: str, default: str) -> Column:
    """What a party says about one of its columns."""
    kinds = {"missing": str, "drop": str, "indicator": bool} | dict.fromkeys(FORMS, int)
    given = entries(entry, at, {"type": str}, kinds)
    kind = given["type"]
    if kind not in KINDS:
        raise Dual2Error(f"{at}: {unknown_name('type', kind, KINDS)}")
    form, size = _form(given, kind, at)
    policies = POLICIES[kind] + ((OWN,) if form in (BINS, WOE) else ())
    policy = given.get("missing", default if default in policies else REFUSE)
    if policy not in policies:
        raise Dual2Error(f"{at}: {unknown_name('policy', policy, policies)}")
    drop, indicator = given.get("drop"), given.get("indicator", False)
    if drop not in (None, "first"):
        raise Dual2Error(f"{at}: {unknown_name('drop', drop, ('first',))}")
    if drop and kind != CATEGORY and form != BINS:
        raise Dual2Error(f"{at}: drop leaves out a category or a bin; this column has none.")
    if indicator and (kind != NUMBER or policy in (REFUSE, OWN)):
        raise Dual2Error(
            f"{at}: indicator adds a column for numbers that are missing, beside what fills them. "
            'Say missing = "median", or for categories missing = "own category".'
        )
    return Column(name, kind, policy, form, size, drop is not None, indicator)


def _form(given: dict[str, Any], kind: str, at: str) -> tuple[str, int]:
    """Into what numbers are cut, and into how many."""
    named = [form for form in FORMS if form in given]
    if not named:
        return PLAIN, 0
    if kind != NUMBER or len(named) > 1:
        raise Dual2Error(
            f"{at} has {' and '.join(named)}; expected one of {', '.join(FORMS)}, of a column of "
            "numbers."
        )
    if given[named[0]] < 2:
        raise Dual2Error(f"{at}: {named[0]} = {given[named[0]]}; expected a number of at least 2.")
    return named[0], given[named[0]]


def _source(own: dict[str, Any], file: Path) -> Callable[[], Table]:
    if ("file" in own) == ("sql" in own):
        raise Dual2Error(f"{file}: table needs either file or sql (with url).")
    how = _csv_format(own, str(file))
    if "file" in own:
        return lambda: read_file(file.parent / own["file"], how)
    if "url" not in own:
        raise Dual2Error(
            f"{file} lacks table.url: the address of the database, or the name of a variable of "
            "the environment that has it: url = '$LAB_DATABASE'."
        )
    return lambda: read_sql(_address(own["url"], file), own["sql"])


def _csv_format(own: dict[str, Any], where: str) -> CsvFormat:
    """How the party writes CSV files, if it says so."""
    found = CsvFormat(**{k: own[k] for k in ("encoding", "decimal", "delimiter") if k in own})
    try:
        codecs.lookup(found.encoding)
    except LookupError as error:
        raise Dual2Error(
            f"{where}: table.encoding is {found.encoding!r}, which Python does not know. For "
            'instance "utf-8", "latin-1", "cp1252" or "utf-16".'
        ) from error
    if found.decimal not in (".", ","):
        raise Dual2Error(f"{where}: table.{unknown_name('decimal', found.decimal, ('.', ','))}")
    if len(found.delimiter) != 1 or found.delimiter in ('"', "\n", "\r"):
        raise Dual2Error(
            f"{where}: table.delimiter is {found.delimiter!r}; expected one character, for "
            'instance ";".'
        )
    return found


def _address(url: str, file: Path) -> str:
    if not url.startswith("$"):
        return url
    if url[1:] not in os.environ:
        raise Dual2Error(f"{file}: table.url is {url}, which the environment does not have.")
    return os.environ[url[1:]]
