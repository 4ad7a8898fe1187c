"""Figures and exports of a store."""

import csv
import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from dual2.bench.case import Case
from dual2.bench.store import Store, StoredRun
from dual2.cli import main
from dual2.errors import Dual2Error
from dual2.paper.figures import draw
from dual2.solving.plotting import plot_trace
from stored_runs import ABOUT, CLAIMS, fill, stored

STEMS = ("exp1", "mine-a-b")
FILES = {f"{stem}.{suffix}" for stem in STEMS for suffix in ("csv", "json", "png", "pdf")}


def drawn(folder, **options):
    return draw(folder, about=ABOUT, claims=lambda store: CLAIMS, **options)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    store = fill(tmp_path_factory.mktemp("store"))
    drawn(store.folder)
    return store


def test_every_file_is_written(store):
    found = {path.name for path in store.folder.iterdir() if path.is_file()}
    of_paper = {"exp1-paper.png", "exp1-paper.pdf"}
    assert found == FILES | of_paper | {"report.html", "claims.csv", "plan.json"}
    assert "Claim 2" in (store.folder / "report.html").read_text()


def test_drawn_again_elsewhere_the_bytes_are_the_same(store, tmp_path):
    shutil.copytree(store.folder / "runs", tmp_path / "runs")
    shutil.copy(store.folder / "plan.json", tmp_path)
    for path in drawn(tmp_path):
        assert path.read_bytes() == (store.folder / path.name).read_bytes(), path.name
    assert b"CreationDate" not in (tmp_path / "exp1.pdf").read_bytes()


def test_the_figure_for_print_has_what_the_paper_shows(tmp_path, monkeypatch):
    asked, looks = {}, []

    def spy(named, **more):
        asked[len(more.get("panels", ()))] = list(named)
        looks.append(more["styles"])
        return plot_trace(named, **more)

    monkeypatch.setattr("dual2.paper.figures.plot_trace", spy)
    store = Store(tmp_path)
    runs = [
        stored("iD2A, ρ = ρ*", 2e3, method="iD2A"),
        stored("iD2A, ρ = ρ*, literal", 3e3, method="iD2A", accuracy="literal"),
        stored("Newton", 40, method="Newton", notes={"ours": True}),
        stored("MiD2A, ρ = ρ*", 2e3, method="MiD2A"),
    ]
    for run in runs:
        store.save(run)
    store.plan([run.case for run in runs])
    drawn(tmp_path)
    assert len(asked[0]) == 4
    assert asked[3] == ["iD2A, ρ = ρ*", "MiD2A, ρ = ρ*"]
    of_iD2A, of_MiD2A = (looks[-1][name] for name in asked[3])
    assert not of_iD2A.marker and of_MiD2A.marker, "told apart in black and white"


def test_csv_holds_every_row_of_every_trace(store):
    rows = list(csv.DictReader((store.folder / "exp1.csv").read_text().splitlines()))
    for run in store.runs("exp1"):
        mine = [row for row in rows if row["run"] == run.case.label]
        for name, column in run.trace.items():
            assert np.array_equal([float(row[name]) for row in mine], column)
    assert len(rows) == sum(len(run.trace.get("rounds", ())) for run in store.runs("exp1"))
    seeds = list(csv.DictReader((store.folder / "mine-a-b.csv").read_text().splitlines()))
    assert {row["run"] for row in seeds} == {"iD2A, seed 0", "iD2A, seed 1"}


def test_claims_are_rows_with_both_verdicts(tmp_path):
    both = replace(CLAIMS[0], sparse="not reproduced")
    draw(fill(tmp_path).folder, about=ABOUT, claims=lambda store: [both, CLAIMS[1]])
    with (tmp_path / "claims.csv").open(encoding="utf-8", newline="") as file:
        first, second = csv.DictReader(file)
    assert (first["literal"], first["every tenth iteration"]) == ("reproduced", "not reproduced")
    assert (second["verdict"], second["literal"]) == ("not reproduced", "")


def test_json_tells_what_was_run_and_reached(store):
    record = json.loads((store.folder / "exp1.json").read_text(), parse_constant=pytest.fail)
    assert list(record["runs"]) == [run.case.label for run in store.runs("exp1")]
    first = record["runs"]["iD2A, ρ = ρ*"]
    trace = store.runs("exp1")[0].trace
    assert first["reached"]["0.0001"]["rounds"] == trace["rounds"][np.argmax(trace["gap"] <= 1e-4)]
    assert first["parameters"]["rho"] == {"value": 0.5, "source": "theorem iD2A, ρ = ρ*"}
    assert first["solve"] == {"method": "iD2A"}
    assert record["runs"]["APAPC"]["status"] == "SKIPPED"


def test_nothing_is_replaced_without_force(store):
    before = (store.folder / "exp1.png").stat().st_mtime_ns
    with pytest.raises(Dual2Error, match=r"exists and would be overwritten.*--force"):
        drawn(store.folder)
    assert (store.folder / "exp1.png").stat().st_mtime_ns == before


def test_force_replaces_what_is_there(tmp_path):
    Store(tmp_path).save(stored("iD2A", 100, status="MAX_ROUNDS"))
    report = tmp_path / "report.html"
    report.write_text("old")
    assert report in drawn(tmp_path, force=True)
    assert report.read_text() != "old"


def test_a_group_that_was_skipped_has_tables_only(tmp_path):
    Store(tmp_path).save(
        StoredRun(Case("mine", "iD2A", "mine"), "SKIPPED", reason="f is not smooth")
    )
    assert {path.name for path in draw(tmp_path)} == {"mine.csv", "mine.json", "report.html"}
    assert "f is not smooth" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("make", [lambda path: path / "none", lambda path: path])
def test_a_folder_without_a_store(tmp_path, make):
    with pytest.raises(Dual2Error, match=r"holds no stored runs .*dual2 reproduce"):
        draw(make(tmp_path))
    assert list(tmp_path.iterdir()) == []


def command(*arguments):
    with pytest.raises(SystemExit) as end:
        main(["plot", *map(str, arguments)])
    return end.value.code or 0


def test_the_command_plot(tmp_path, capsys):
    Store(tmp_path).save(stored("iD2A", 100, group="mine"))
    assert command(tmp_path) == 0
    assert capsys.readouterr().out.splitlines()[-1] == str(tmp_path / "report.html")
    assert command(tmp_path) == 2
    assert "--force" in capsys.readouterr().err
    assert command(tmp_path / "none") == 2
    assert "holds no stored runs" in capsys.readouterr().err
