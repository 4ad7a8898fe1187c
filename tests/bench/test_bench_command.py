"""dual2 bench: tables, files, exit codes."""

import csv

import pytest

from dual2.cli import main

CONFIG = """
title = "Small"
[solve]
max_rounds = 2_000
[[problems]]
build = "random"
n = 4
kappa_f = [2, 8]
[[networks]]
build = "ring"
[[methods]]
method = "iD2A"
[[methods]]
method = "DCDA"
reduce = false
[[methods]]
method = "NPGA-ED"
[[studies]]
over = "kappa_f"
"""


def bench(capsys, *arguments):
    with pytest.raises(SystemExit) as end:
        main(["bench", *map(str, arguments)])
    return end.value.code or 0, *capsys.readouterr()


def test_files_that_no_benchmark_wrote_stay(tmp_path, capsys):
    config, mine = tmp_path / "small.toml", tmp_path / "summary.csv"
    config.write_text(CONFIG)
    mine.write_text("mine")
    code, _, errors = bench(capsys, config, "--out", tmp_path)
    assert code == 2 and "summary.csv exists" in errors
    assert mine.read_text() == "mine" and not (tmp_path / "runs").exists()


def test_a_benchmark_prints_tables_writes_files_and_continues(tmp_path, capsys):
    config, out = tmp_path / "small.toml", tmp_path / "out"
    config.write_text(CONFIG)
    code, text, errors = bench(capsys, config, "--out", out, "--workers", 1)
    assert code == 0
    assert "6 runs made, 0 kept" in text
    assert "random (kappa_f = 8)  ring     iD2A" in text and "1 SKIPPED" in text
    assert "κ_f  iD2A" in text and "0.50" in text
    assert errors.count("skipped: DCDA") == 1, "one reason is told once"
    assert "and 1 more: DCDA cannot solve this problem" in errors
    rows = list(csv.DictReader((out / "summary.csv").read_text().splitlines()))
    assert [row["method"] for row in rows[:3]] == ["iD2A", "DCDA, reduce = False", "NPGA-ED"]
    assert rows[0]["problem"] == "random (kappa_f = 2)" and float(rows[0]["rounds"]) > 0
    files = {file.name for file in out.iterdir()}
    assert files == {
        "plan.json",
        "runs",
        "summary.csv",
        "summary.png",
        "summary.tex",
        "curves.pdf",
        "curves.png",
        "bench.json",
        "studies.csv",
        "studies.png",
    }

    before = (out / "summary.png").read_bytes()
    config.write_text(CONFIG.replace('method = "NPGA-ED"', 'method = "NPGA-EXTRA"'))
    code, text, _ = bench(capsys, config, "--out", out, "--workers", 1)
    assert code == 0 and "2 runs made, 4 kept" in text
    assert "NPGA-ED" not in text and "NPGA-EXTRA" in text
    config.write_text(CONFIG)
    assert "0 runs made, 6 kept." in bench(capsys, config, "--out", out)[1]
    assert (out / "summary.png").read_bytes() == before


def test_failures_and_mistakes_have_exit_codes_of_their_own(tmp_path, capsys, monkeypatch):
    config = tmp_path / "small.toml"
    config.write_text(CONFIG)

    def fails(*_, **__):
        raise ArithmeticError("no digits left")

    monkeypatch.setattr("dual2.bench.run_case.solve", fails)
    code, text, errors = bench(capsys, config, "--out", tmp_path / "out", "--workers", 1)
    assert code == 3 and "FAILED: iD2A on random (kappa_f = 2) on ring" in errors
    assert "ArithmeticError: no digits left" in errors and "2 FAILED" not in text
    config.write_text(CONFIG.replace("kappa_f", "kapa_f"))
    code, text, errors = bench(capsys, config, "--out", tmp_path / "other")
    assert code == 2 and "Did you mean 'kappa_f'" in errors
    assert f"{config}, [[problems]] number 1" in errors
    assert not (tmp_path / "other").exists(), "mistakes are found before any work"
