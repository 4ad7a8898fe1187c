"""Organisations with a table each: folders, keys and files of a learning study on one machine."""

import csv
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from dual2.learn.vertical.party_file import LearnParty, read_learn_party
from dual2.runtime.peers.identity import make_trial
from party_offices import free_ports

NAMES = ("hospital", "lab", "insurer")
STUDY = """
run = "trial"
{sums}
[learn]
model = "{model}"
options = {options}
{learn}
[rows]
policy = "{policy}"
id = "patient"
{rows}
[labels]
holder = "hospital"
{labels}
{more}
"""


@dataclass
class World:
    """Rows that everybody has or not, and what each party knows of them."""

    tables: dict[str, dict[str, list[Any]]]
    columns: dict[str, dict[str, str]]
    label: str = "stroke"


def make_world(
    common: int = 80,
    spare: int = 15,
    seed: int = 0,
    classes: int = 2,
    names: Sequence[str] = NAMES,
    mixed: bool = True,
) -> World:
    """Tables in different orders (``mixed``) with ids that others lack, a category, a gap."""
    draw = np.random.default_rng(seed)
    count = common + spare * len(names)
    X = draw.standard_normal((count, 2 * len(names))) * ([3.0, 1.0] * len(names)) + 5.0
    score = X @ draw.standard_normal(2 * len(names))
    score += draw.standard_normal(count) - np.median(score)
    cuts = np.quantile(score, np.arange(1, classes) / classes)
    ids = [f"p{k:05d}" for k in draw.permutation(10 * count)[:count]]
    tables, columns = {}, {}
    for i, name in enumerate(names):
        own = np.arange(common + spare) if i == 0 else np.arange(common)
        if i:
            own = np.concatenate([own, np.arange(common + i * spare, common + (i + 1) * spare)])
        own = draw.permutation(own) if mixed else own
        table: dict[str, list[Any]] = {"patient": [ids[k] for k in own]}
        for j in (2 * i, 2 * i + 1):
            table[f"x{j}"] = [float(X[k, j]) for k in own]
        columns[name] = {f"x{j}": '"number"' for j in (2 * i, 2 * i + 1)}
        if i == 1:
            table["ward"] = ["north" if score[k] + draw.normal() > 0 else "south" for k in own]
            columns[name]["ward"] = '"category"'
            table["x2"][3] = None
            columns[name]["x2"] = '{ type = "number", missing = "median" }'
        if i == 0:
            table["stroke"] = [int(np.searchsorted(cuts, score[k])) for k in own]
            table["days"] = [float(score[k]) for k in own]
        tables[name] = table
    return World(tables, columns)


def write_csv(file: Path, table: Mapping[str, Sequence[Any]]) -> None:
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(table)
        for row in zip(*table.values(), strict=True):
            writer.writerow(
                ["" if v is None else repr(v) if isinstance(v, float) else v for v in row]
            )


class Offices:
    """The folders of a study's parties."""

    def __init__(self, folder: Path, world: World, model: str = "LogisticRegression", **more: str):
        self.folder, self.world, self.names = folder, world, list(world.tables)
        self.ports = free_ports(len(self.names))
        prints = make_trial(folder / "keys", self.names)
        given = {"options": "{}", "policy": "given", "labels": "accept_leakage = true"} | more
        given = dict.fromkeys(("sums", "learn", "rows", "more", "extra"), "") | given
        self.study = STUDY.format(model=model, **given)
        for name in self.names:
            self.study += f'[[parties]]\nname = "{name}"\ncertificate = "{name}.pem"\n'
            self.study += f'fingerprint = "{prints[name]}"\n'
        for i, name in enumerate(self.names):
            own = folder / name
            own.mkdir(parents=True)
            for other in self.names:
                shutil.copy(folder / "keys" / f"{other}.pem", own)
            shutil.copy(folder / "keys" / f"{name}.key", own)
            (own / "study.toml").write_text(self.study)
            (own / "party.toml").write_text(self._party(i, name, given["extra"]))
            write_csv(own / "table.csv", world.tables[name])

    def _party(self, i: int, name: str, extra: str) -> str:
        text = f'name = "{name}"\nstudy = "study.toml"\nkey = "{name}.key"\nstate = "state"\n'
        text += f'certificate = "{name}.pem"\nlisten = "127.0.0.1:{self.ports[i]}"\n'
        text += "dead = 15.0\npatience = 60.0\n"
        text += '[table]\nfile = "table.csv"\n' + extra
        if i == 0:
            text += f'label = "{self.world.label}"\n'
        text += "[table.columns]\n"
        text += "".join(f"{k} = {v}\n" for k, v in self.world.columns[name].items())
        for j, other in enumerate(self.names[:i]):
            if j == 0 or '["' in self.study:
                text += f'[peers.{other}]\naddress = "127.0.0.1:{self.ports[j]}"\n'
        return text

    def file(self, name: str) -> Path:
        return self.folder / name / "party.toml"

    def state(self, name: str) -> Path:
        return self.folder / name / "state"

    def change(self, name: str, file: str, old: str, new: str) -> None:
        path = self.folder / name / file
        text = path.read_text()
        assert old in text, (old, text)
        path.write_text(text.replace(old, new, 1))

    def everyone(self, work: Callable[[LearnParty], Any]) -> dict[str, Any]:
        """What each party's work answers, or the error it ends with; all at once, in threads."""
        found: dict[str, Any] = {}

        def live(name: str) -> None:
            try:
                found[name] = work(read_learn_party(self.file(name)))
            except Exception as error:
                found[name] = error

        threads = [threading.Thread(target=live, args=(name,)) for name in self.names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(300.0)
        assert not any(thread.is_alive() for thread in threads), "a party hangs"
        return found


def joined(world: World, label: str = "stroke", drop: Sequence[str] = ()) -> tuple[Any, Any, Any]:
    """Ids, features and labels of the rows that all have, in one frame, by pandas alone."""
    frames = [pd.DataFrame(table) for table in world.tables.values()]
    frame = frames[0]
    for other in frames[1:]:
        frame = frame.merge(other, on="patient", how="inner")
    features = [name for columns in world.columns.values() for name in columns]
    return frame["patient"], frame[[f for f in features if f not in drop]], frame[label]


def preparation(features: Any) -> ColumnTransformer:
    """What the parties' files ask for, by scikit-learn: median, spread one, one column a class."""
    number = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    word = OneHotEncoder(sparse_output=False)
    steps = [(n, word if features[n].dtype == object else number, [n]) for n in features]
    return ColumnTransformer(steps)


def done(found: dict[str, Any]) -> dict[str, Any]:
    """The answers, if none is an error."""
    for answer in found.values():
        if isinstance(answer, Exception):
            raise answer
    return found
