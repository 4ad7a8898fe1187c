"""The example's folders from tables to predictions; training in processes, one of which is killed.

All commands as processes: ``benchmarks/vertical.py commands``.
"""

import csv
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score

from dual2.cli import main
from dual2.learn.vertical.example import PARTIES, write_example
from dual2.learn.vertical.fitting import align
from dual2.learn.vertical.model import load_model
from dual2.learn.vertical.party_file import LearnParty, read_learn_party
from dual2.learn.vertical.prediction import Predictions, predict
from dual2.learn.vertical.preflight import check_learn_party
from dual2.learn.vertical.session import Report
from dual2.learn.vertical.stages import run_stages
from dual2.learn.vertical.tables import read_file
from learning_offices import preparation
from mpi_runs import variables
from party_offices import LIMIT, free_ports
from ready import PYTHON


def start(folder: Path, name: str, *line: str) -> "subprocess.Popen[str]":
    """One party's command, in its own folder."""
    return subprocess.Popen(
        [*PYTHON, "-m", "dual2.cli", "learn", *line],
        cwd=folder / name,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=variables(),
    )


def finish(running: "dict[str, subprocess.Popen[str]]") -> dict[str, str]:
    """What each party said, if all ended well."""
    said = {}
    for name, process in running.items():
        try:
            said[name] = process.communicate(timeout=LIMIT)[1]
        except subprocess.TimeoutExpired:
            process.kill()
            raise AssertionError(f"{name} hangs: {process.communicate()[1]}") from None
        assert process.returncode == 0, f"{name}: {said[name]}"
    return said


def everywhere(folder: Path, work: Callable[..., Any]) -> dict[str, str]:
    """What each party says on the way, in threads of this process."""
    said: dict[str, list[str]] = {name: [] for name in PARTIES}
    failed: list[Exception] = []

    def live(name: str) -> None:
        try:
            work(read_learn_party(folder / name / "party.toml"), report=said[name].append)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=live, args=(name,)) for name in PARTIES]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    assert not failed
    return {name: "\n".join(texts) for name, texts in said.items()}


def fit_with_a_death(folder: Path) -> dict[str, str]:
    """The lab is killed when it has heard something, and started again."""
    running = {name: start(folder, name, "fit", "party.toml") for name in PARTIES}
    journal = folder / "lab" / "state" / "fit" / "journal"
    while running["lab"].poll() is None:  # beside busy programs it may be over unseen
        with suppress(FileNotFoundError):
            if journal.stat().st_size > 30_000:
                break
        time.sleep(0.005)
    running["lab"].kill()
    running["lab"].communicate()
    running["lab"] = start(folder, "lab", "fit", "party.toml", "--resume")
    return finish(running)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """The example, with ports that are free."""
    made = write_example(tmp_path_factory.mktemp("commands") / "trial")
    ports = free_ports(3)
    for name in PARTIES:
        file = made / name / "party.toml"
        text = file.read_text()
        for k, port in enumerate(ports):
            text = text.replace(f"127.0.0.1:{7443 + k}", f"127.0.0.1:{port}")
        file.write_text(text)
    return made


def read(folder: Path, which: str) -> tuple[pd.DataFrame, pd.Series, pd.Series]:
    """Features, labels and ids of the rows that all have, in one frame."""
    frames = {name: pd.read_csv(folder / name / f"{which}.csv") for name in PARTIES}
    frames["lab"] = frames["lab"].rename(columns={"person": "patient"})
    joined = frames["hospital"].merge(frames["lab"]).merge(frames["insurer"])
    names = ["radius", "texture", "area", "smoothness", "concavity", "grade"]
    return joined[[*names, "symmetry", "dimension"]], joined["benign"], joined["patient"]


def test_from_tables_to_predictions(folder):
    """As scikit-learn on the joined table, although one party died in the middle."""
    said = everywhere(folder, align)
    X, y, ids = read(folder, "table")
    assert all(f"{len(ids)} of " in text for text in said.values()) and len(ids) > 300
    said = fit_with_a_death(folder)
    assert "Labels: they stay at their holder" in said["hospital"]
    prepare = preparation(X).fit(X)
    truth = LogisticRegression(C=0.5, tol=1e-12, max_iter=10_000).fit(prepare.transform(X), y)
    found = []
    for name in PARTIES:
        found += load_model(read_learn_party(folder / name / "party.toml")).coefficients[0].tolist()
    assert max(abs(a - b) for a, b in zip(found, truth.coef_[0], strict=True)) < 1e-6

    def spring(own: LearnParty, report: Report) -> Predictions:
        return predict(own, read_file(own.party.file.parent / "new.csv"), "spring", report=report)

    said = everywhere(folder, spring)
    with (folder / "hospital" / "state" / "predictions-spring.csv").open() as file:
        told = {row["patient"]: row for row in csv.DictReader(file)}
    X, y, ids = read(folder, "new")
    chance = truth.predict_proba(prepare.transform(X))[:, 1]
    assert sorted(told) == sorted(ids)
    errors = [abs(float(told[one]["p(yes)"]) - p) for one, p in zip(ids, chance, strict=True)]
    assert max(errors) < 1e-6
    right = accuracy_score(y, truth.predict(prepare.transform(X)))
    assert f"accuracy {right:.4f}" in said["hospital"] and "accuracy" not in said["lab"]


def test_one_process_aligns_fits_and_predicts_and_leaves_what_is_done(folder):
    def spring(own: LearnParty, report: Report) -> Any:
        return run_stages(own, own.party.file.parent / "new.csv", "stages", report)

    said = everywhere(folder, spring)
    made = folder / "hospital" / "state" / "predictions-stages.csv"
    assert f"predictions: {made}" in said["hospital"] and made.exists()
    said = everywhere(folder, spring)
    assert all("are made already" in text for text in said.values())


def test_a_check_reads_the_table_and_says_who_does_not_listen(folder):
    found = {one.what: one for one in check_learn_party(folder / "lab" / "party.toml", 5)}
    assert found["table"].fine and "rows" in found["table"].words
    assert not found["hospital"].fine and "connection refused" in found["hospital"].words
    own = folder / "lab" / "party.toml"
    text = own.read_text()
    own.write_text(text.replace("[table.columns]", '[table.columns]\nshoe_size = "number"'))
    found = {one.what: one for one in check_learn_party(own, 5)}
    own.write_text(text)
    assert not found["table"].fine and "shoe_size" in found["table"].words


def test_the_example_is_written_once_and_explained(folder, tmp_path, capsys):
    def run(*line: object) -> int:
        with pytest.raises(SystemExit) as end:
            main(["learn", *map(str, line)])
        return int(end.value.code or 0)

    assert run("example", tmp_path / "new") == 0
    assert "dual2 learn predict party.toml new.csv" in capsys.readouterr().out
    assert run("example", tmp_path / "new") == 2
    lab = tmp_path / "new" / "lab" / "party.toml"
    assert run("summary", lab) == 0
    assert "Labels are held by hospital" in capsys.readouterr().out
    assert run("fit", lab) == 2
    assert "First: dual2 learn align" in capsys.readouterr().err
    assert run("fit", lab, "--patience", "-1") == 2
    assert run("align", lab, "--patience", "0.2", "--quiet") == 4
    assert "was unreachable for 0.2 s" in capsys.readouterr().err
