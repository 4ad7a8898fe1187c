"""``dual2 warm``: kernels are compiled ahead, here or for every processor of a level."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from dual2 import shipped_kernels
from dual2.cli import main
from dual2.commands import warm
from dual2.kernel_cache import source_stamp


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as end:
        main([str(part) for part in arguments])
    return end.value.code


def test_problems_are_solved_with_the_usual_methods(monkeypatch, capsys):
    monkeypatch.setattr(warm, "USUAL", ("auto",))
    assert run("warm") == 0
    assert "compiled kernel" in capsys.readouterr().out
    methods = {wish["method"] for wish in warm.wishes(every=True)}
    assert {"auto", "Newton", "NPGA-EXTRA", "Tracking-ADMM"} <= methods


def test_kernels_to_ship_are_compiled_for_one_level_and_carry_a_manifest(
    monkeypatch, tmp_path, capsys
):
    asked: dict[str, str] = {}

    def compile_elsewhere(line, env, check):
        asked.update(env)
        folder = Path(env["DUAL2_CACHE_DIR"]) / "installation" / "stamp"
        folder.mkdir(parents=True)
        for name in ("respond.nbi", "respond.1.nbc"):
            (folder / name).write_bytes(b"kernel")

    monkeypatch.setattr(subprocess, "run", compile_elsewhere)
    out = tmp_path / "kernels"
    out.mkdir()
    (out / "old.1.nbc").write_bytes(b"of other sources")
    assert run("warm", "--out", out) == 0
    assert capsys.readouterr().out == f"1 kernel for x86-64-v3 in {out}.\n"
    assert sorted(os.listdir(out)) == ["manifest.json", "respond.1.nbc", "respond.nbi"]
    assert (asked["NUMBA_CPU_NAME"], asked["DUAL2_KERNELS"]) == ("x86-64-v3", "off")
    found = json.loads((out / "manifest.json").read_text())
    triple, *processor = found["target"]
    assert "linux" in triple or "apple" in triple or "windows" in triple
    assert processor == [asked["NUMBA_CPU_NAME"], asked["NUMBA_CPU_FEATURES"]]
    monkeypatch.setenv("DUAL2_KERNELS", str(out))
    for name in shipped_kernels.OVERRIDES:
        monkeypatch.delenv(name, raising=False)
    everything = dict.fromkeys(shipped_kernels.FEATURES, True)
    for host, fits in ((everything, True), (everything | {"avx2": False}, False)):
        monkeypatch.setattr("llvmlite.binding.get_host_cpu_features", lambda host=host: host)
        assert (shipped_kernels.find_shipped(source_stamp()) is not None) == fits
    assert run("warm", "--out", out) == 2, "not over what is there, unless forced"
