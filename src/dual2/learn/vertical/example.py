"""``dual2 learn example``: three folders on one machine, as three organisations would have them.

The rows are the breast cancer data of scikit-learn, shared out by columns: each party has its own
order, some rows that others lack, names of its own for things.
"""

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer

from dual2.files import refuse_existing, to_csv, write_atomically
from dual2.learn.vertical.party_file import read_learn_party
from dual2.runtime.peers.identity import make_trial

PARTIES = ("hospital", "lab", "insurer")
FIRST_PORT = 7443
STUDY = """\
# Public: the same bytes at every party.
run = "tumour-trial"

[learn]
model = "LogisticRegression"
options = { C = 0.5 }

[rows]
policy = "psi"
id = "patient"
minimum = 50

[labels]
holder = "hospital"
private = true                 # or epsilon = 2.0; see: dual2 learn summary party.toml

[predictions]
to = ["hospital"]
"""
PARTY = """\
# Private to the {name}.
name = "{name}"
study = "study.toml"
key = "{name}.key"
certificate = "{name}.pem"
state = "state"
listen = "{listen}"
{peers}
[table]
file = "table.csv"
{more}
[table.columns]
{columns}
"""
_COLUMNS = {
    "hospital": {"mean radius": "radius", "mean texture": "texture", "mean area": "area"},
    "lab": {"mean smoothness": "smoothness", "mean concavity": "concavity"},
    "insurer": {"worst symmetry": "symmetry", "worst fractal dimension": "dimension"},
}
_MORE = {
    "hospital": 'label = "benign"',
    "lab": 'id = "person"                  # what the study calls patient\nmissing = "median"',
    "insurer": "",
}
_NEW = 69
"""Rows that are left for predictions."""


def write_example(folder: Path, force: bool = False, hosts: bool = False) -> Path:
    """Write the folders of three parties, with keys, files and tables.

    With ``hosts`` each is to run on a machine that has its name, otherwise all on this one.
    """
    refuse_existing(folder, force)
    prints = make_trial(folder / "keys", list(PARTIES), force)
    study = STUDY
    for name in PARTIES:
        study += f'\n[[parties]]\nname = "{name}"\ncertificate = "{name}.pem"\n'
        study += f'fingerprint = "{prints[name]}"\n'
    tables = _tables()
    for k, name in enumerate(PARTIES):
        own = folder / name
        write_atomically(own / "study.toml", study)
        write_atomically(own / "party.toml", _party(k, name, hosts))
        for which, table in tables[name].items():
            write_atomically(own / f"{which}.csv", table)
        for other in PARTIES:
            write_atomically(own / f"{other}.pem", (folder / "keys" / f"{other}.pem").read_bytes())
        key = own / f"{name}.key"
        (folder / "keys" / key.name).replace(key)
        read_learn_party(own / "party.toml")
    for file in (folder / "keys").iterdir():
        file.unlink()
    (folder / "keys").rmdir()
    return folder


def _party(k: int, name: str, hosts: bool) -> str:
    listen = f"0.0.0.0:{FIRST_PORT}" if hosts else f"127.0.0.1:{FIRST_PORT + k}"
    address = f"{PARTIES[0] if hosts else '127.0.0.1'}:{FIRST_PORT}"
    peers = f'\n[peers.{PARTIES[0]}]\naddress = "{address}"\n' if k else ""
    columns = "\n".join(f'{column} = "number"' for column in _COLUMNS[name].values())
    columns += '\ngrade = "category"' if name == "lab" else ""
    return PARTY.format(name=name, listen=listen, peers=peers, more=_MORE[name], columns=columns)


def _tables() -> dict[str, dict[str, str]]:
    """The tables of each party as CSV: those to learn from, and new rows."""
    data: Any = load_breast_cancer()
    place = {str(name): j for j, name in enumerate(data.feature_names)}
    draw = np.random.default_rng(0)
    count = len(data.target)
    ids = [f"p{number:06d}" for number in draw.choice(10**6, count, replace=False)]
    grade = np.digitize(data.data[:, place["mean compactness"]], [0.08, 0.12])
    found = {}
    for name in PARTIES:
        columns: dict[str, list[str]] = {"person" if name == "lab" else "patient": ids}
        for theirs, own in _COLUMNS[name].items():
            columns[own] = [repr(float(value)) for value in data.data[:, place[theirs]]]
        if name == "lab":
            columns["grade"] = [("low", "middle", "high")[k] for k in grade]
            for k in range(7, count, 41):
                columns["smoothness"][k] = ""
        if name == "hospital":
            columns["benign"] = [("no", "yes")[k] for k in data.target]
        lacking = set(draw.choice(count, count // 10, replace=False).tolist())
        order = [int(k) for k in draw.permutation(count) if int(k) not in lacking]
        found[name] = {
            "table": _csv(columns, [k for k in order if k < count - _NEW]),
            "new": _csv(columns, [k for k in order if k >= count - _NEW]),
        }
    return found


def _csv(columns: dict[str, list[str]], rows: list[int]) -> str:
    return to_csv(columns, ([column[k] for column in columns.values()] for k in rows))
