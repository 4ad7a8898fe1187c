"""Benchmarks of the user's own methods, problems and networks."""

import json
import re
import sys
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

import dual2 as d2
import howto
from dual2.bench import benchmark
from dual2.bench.bands import band, bands_figure
from dual2.bench.case import Case
from dual2.bench.config import parse_config
from dual2.bench.imported import code_digests
from dual2.bench.store import StoredRun
from dual2.cli import main
from dual2.errors import CapabilityError, Dual2Error
from dual2.methods.registry import METHODS

GUIDE = Path(__file__).parents[2] / "docs" / "bench.md"

PROBLEM = """
import numpy as np
import dual2 as d2

def make(seed, n: int = 4, scale=1.0):
    rng = np.random.default_rng(seed)
    agents = [d2.Agent([[scale]], d2.SquaredNorm(1 + rng.random())) for _ in range(n)]
    return d2.Problem(agents, d2.SquaredLoss([1.0]))

def nothing(seed):
    return None

def broken(seed):
    raise ArithmeticError("no data today")

def no_argument():
    return None
"""
NETWORK = """
import networkx as nx

def wheel(n, spare=0):
    return nx.wheel_graph(n + spare)
"""
METHOD = """
from dual2.methods.registry import METHODS
METHOD = METHODS["NPGA-ED"]
"""
CONFIG = """
seeds = [0, 1]
[solve]
tol = 1e-6
[[problems]]
build = "PROBLEM:make"
scale = [1.0, 2.0]
[[networks]]
build = "NETWORK:wheel"
[[methods]]
method = "METHOD:METHOD"
[[methods]]
method = "auto"
"""


def three_agents(seed):
    return d2.Problem([d2.Agent([[1.0]], d2.SquaredNorm(1.0 + seed))] * 3, d2.SquaredLoss([1.0]))


MODULES = {"PROBLEM": PROBLEM, "NETWORK": NETWORK, "METHOD": METHOD}


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A folder with the three modules under names that no other test imports; its config."""
    monkeypatch.setattr(sys, "path", sys.path.copy())
    monkeypatch.chdir(tmp_path)
    config = CONFIG
    for k, (name, text) in enumerate(MODULES.items()):
        module = f"own{abs(hash(tmp_path))}_{k}"
        (tmp_path / f"{module}.py").write_text(text)
        config = config.replace(name + ":", module + ":")
    return config


def command(capsys, *arguments):
    with pytest.raises(SystemExit) as end:
        main(["bench", *map(str, arguments)])
    return end.value.code or 0, *capsys.readouterr()


def test_the_example_of_the_guide_runs_from_an_empty_folder(tmp_path, monkeypatch, capsys):
    """Its own method on its own problem, on three graphs with five seeds."""
    monkeypatch.setattr(sys, "path", sys.path.copy())
    monkeypatch.chdir(tmp_path)
    text = GUIDE.read_text(encoding="utf-8")
    kinds = {
        "myproblem.py": r"^```python\n(?!>>>)(.*?)^```",
        "my.toml": r"^```toml\n(title = \"A .*?)^```",
    }
    for file, pattern in kinds.items():
        found = re.search(pattern, text, re.DOTALL | re.MULTILINE)
        assert found is not None, file
        Path(file).write_text(found[1])
    Path("mymethod.py").write_text(howto.printed("howto_algorithm.md")[0])
    code, out, errors = command(capsys, "my.toml", "--workers", 1)
    assert code == 0, errors
    assert "60 runs made, 0 kept" in out and out.count("5 CONVERGED") == 12
    table = Path("results/my/summary.tex").read_text()
    assert table.count("Dual-EXTRA") == 3 and table.count(r"\midrule") == 3
    assert table.count("5/5") == 12 and table.count(r"\textbf") >= 3
    record = json.loads(Path("results/my/bench.json").read_text())
    assert record["hash"] in table and record["folder"] == "../.."
    assert record["hash"].encode() in Path("results/my/curves.png").read_bytes()
    assert set(record["code"]) == {"mymethod:DUAL_EXTRA", "myproblem:allocation"}


def test_a_benchmark_is_run_again_and_compared(own, tmp_path, capsys):
    Path("c.toml").write_text(own)
    assert command(capsys, "c.toml", "--out", "out", "--workers", 1)[0] == 0
    code, out, _ = command(capsys, "--reproduce", "out", "--workers", 1)
    assert code == 0 and "8 of 8 runs with the same status, data and counts" in out
    file = next(Path("out/runs").glob("*.json"))
    record = json.loads(file.read_text())
    before, record["counts"]["rounds"] = record["counts"]["rounds"], 7
    file.write_text(json.dumps(record))
    bench = json.loads(Path("out/bench.json").read_text())
    bench["versions"]["numpy"] = "1.0"
    Path("out/bench.json").write_text(json.dumps(bench))
    code, out, _ = command(capsys, "--reproduce", "out", "--workers", 1)
    assert code == 3 and "7 of 8 runs" in out
    assert f"rounds was 7, is {before}" in out
    assert f"changed since: numpy: versions was 1.0, is {np.__version__}" in out


def test_reproduce_needs_a_benchmark(tmp_path, capsys):
    code, _, errors = command(capsys, "--reproduce", tmp_path)
    assert code == 2 and "has no bench.json; expected a folder that dual2 bench" in errors
    code, _, errors = command(capsys, "scaling", "--reproduce", tmp_path)
    assert code == 2 and "--reproduce DIR goes with --workers only" in errors
    code, _, errors = command(capsys)
    assert code == 2 and "CONFIG is missing" in errors


def test_own_names_become_cases_and_an_edit_makes_others(own, tmp_path):
    config = parse_config(own, "c", tmp_path)
    assert [case.label for case in config.cases[:4]] == ["NPGA-ED"] * 2 + ["auto"] * 2
    assert len({case.group for case in config.cases}) == 2
    first = config.cases[0]
    assert set(first.notes["code"]) == {first.problem, first.solve["method"], *_places(first)}
    assert code_digests(["iD2A", "random"]) == {}
    file = tmp_path / f"{first.problem.partition(':')[0]}.py"
    file.write_text(PROBLEM + "# another text\n")
    assert parse_config(own, "c", tmp_path).cases[0].key != first.key


def _places(case):
    return [case.problem_options["network"]["build"]]


@pytest.fixture
def package(tmp_path, own):
    """The same modules as an installed package with entry points; a config with their names."""
    modules = dict(re.findall(r'"(own\d+_\d):(\w+)"', own))
    names = {attribute: f"{module}:{attribute}" for module, attribute in modules.items()}
    groups = {"problems": "make", "networks": "wheel", "methods": "METHOD"}
    info = tmp_path / f"{next(iter(modules))}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own\nVersion: 1.0\n")
    points = [f"[dual2.{group}]\nmy-{k} = {names[k]}\n" for group, k in groups.items()]
    (info / "entry_points.txt").write_text("".join(points))
    for attribute, name in names.items():
        own = own.replace(name, f"my-{attribute}")
    return own, names


def test_names_of_entry_points_become_cases(package, tmp_path):
    text, names = package
    cases = parse_config(text, "c.toml", tmp_path).cases
    assert cases[0].problem == names["make"] and cases[0].group.startswith("my-make")
    assert cases[0].solve["method"] == names["METHOD"] and cases[0].label == "NPGA-ED"
    assert cases[0].problem_options["network"]["build"] == names["wheel"]
    found = benchmark({"p": three_agents}, {"path": nx.path_graph}, ["my-METHOD"], tol=1e-4)
    assert [line.method for line in found.lines] == ["my-METHOD"]


def test_an_entry_point_does_not_replace_a_name_of_ours(package, tmp_path):
    text, _ = package
    points = next(tmp_path.glob("*.dist-info")) / "entry_points.txt"
    points.write_text(points.read_text().replace("my-METHOD", "iD2A"))
    cases = parse_config(text.replace("my-METHOD", "iD2A"), "c.toml", tmp_path).cases
    assert cases[0].solve["method"] == "iD2A"
    twice = tmp_path / "other-1.0.dist-info"
    twice.mkdir()
    (twice / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (twice / "entry_points.txt").write_text("[dual2.problems]\nmy-make = math:sqrt\n")
    with pytest.raises(Dual2Error, match="more than one package: math:sqrt"):
        parse_config(text, "c.toml", tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            ":make",
            "x:make",
            r"problems\]\] number 1: There is no module 'own.*x'. Python looked in",
        ),
        (":make", ":mkae", r"problems\]\] number 1: The module 'own.*' has no 'mkae'; .* make"),
        (":make", ":no_argument", r"no_argument\(\) found; expected .*no_argument\(seed, …\)"),
        (":make", ":nothing", r"returned a NoneType; expected a dual2.Problem"),
        (":make", ":broken", r"broken\(0\) ended with ArithmeticError: no data today"),
        ("scale =", "scael =", "Unknown key 'scael'. Did you mean 'scale'"),
        ("scale = [1.0, 2.0]", 'n = "x"', "n = 'x' found; expected a whole number"),
        (":wheel", ":nx", r"networks\]\] number 1: own.*:nx is a module; expected a function"),
        (':wheel"', ':wheel"\nspare = 2', r"returned a network of 6; expected 4 agents"),
        (":METHOD", ":METHODS", r"methods\]\] number 1: own.* is a dict; expected a Method"),
        (":METHOD", ": METHOD", "expected 'module:attribute', for instance"),
        ('"auto"', '"auto"\nrho = 1', r"methods\]\] number 2: Unknown key 'rho'"),
    ],
)
def test_mistakes_in_own_names_are_told_before_anything_runs(own, tmp_path, old, new, message):
    if old == "scale =" or "scale = [" in old:
        changed = own.replace("scale = [1.0, 2.0]", "scael = 1.0" if "scael" in new else new)
    else:
        changed = own.replace("scale = [1.0, 2.0]\n", "").replace(old, new)
    assert changed != own
    with pytest.raises(Dual2Error, match=message):
        parse_config(changed, "bad", tmp_path)


def test_a_module_that_fails_while_it_is_imported(own, tmp_path):
    (tmp_path / "half_a_module.py").write_text("import nowhere_to_be_found\n")
    (tmp_path / "bad_module.py").write_text("1 / 0\n")
    text = re.sub(r'build = "own\w+:make"', 'build = "half_a_module:make"', own)
    with pytest.raises(Dual2Error, match="it needs 'nowhere_to_be_found', which is not installed"):
        parse_config(text, "bad", tmp_path)
    with pytest.raises(Dual2Error, match="cannot be imported: ZeroDivisionError: division by zero"):
        parse_config(text.replace("half_a_module", "bad_module"), "bad", tmp_path)


def ridge(seed):
    rng = np.random.default_rng(seed)
    agents = [d2.Agent([[1.0]], d2.SquaredNorm(1 + rng.random())) for _ in range(4)]
    return d2.Problem(agents, d2.SquaredLoss([1.0]))


def test_objects_are_compared_from_python(tmp_path):
    methods = {"mine": METHODS["NPGA-ED"], "theirs": {"method": "iD2A", "rho": 0.0}, "auto": "auto"}
    networks = {"graph": nx.wheel_graph(4), "function": lambda n: nx.star_graph(n - 1)}
    found = benchmark({"ridge": ridge, "fixed": ridge(0)}, networks, methods, [0, 1], tol=1e-6)
    assert len(found.lines) == 12
    assert all(line.statuses == {"CONVERGED": 2} for line in found.lines)
    assert {run.case.solve["tol"] for run in found.runs} == {1e-6}
    found.write(tmp_path / "out")
    files = {file.name for file in (tmp_path / "out").iterdir()}
    assert files == {"summary.csv", "summary.tex", "curves.pdf", "curves.png"}
    direct = d2.solve(ridge(1), d2.Network(nx.wheel_graph(4)), method="NPGA-ED", tol=1e-6, seed=1)
    mine = next(run for run in found.runs if run.case.label == "mine" and run.case.seed == 1)
    assert mine.counts["rounds"] == direct.counts.rounds


def test_mistakes_from_python():
    network = {"path": nx.path_graph}
    with pytest.raises(CapabilityError, match="Unknown method 'iD3A'"):
        benchmark({"ridge": ridge}, network, ["iD3A"])
    with pytest.raises(Dual2Error, match="'iD2A' found twice; give a mapping"):
        benchmark({"ridge": ridge}, network, ["iD2A", "iD2A"])
    with pytest.raises(Dual2Error, match="No problem found; expected at least one"):
        benchmark({}, network, ["iD2A"])
    failed = benchmark({"none": lambda seed: None}, network, ["iD2A"]).runs[0]
    assert failed.status == "FAILED" and "none returned a NoneType" in failed.reason


def run(seed, rounds, residual, label="iD2A", status="CONVERGED"):
    case = Case("net", label, "random", seed=seed)
    return StoredRun(case, status, trace={"rounds": np.array(rounds), "kkt": np.array(residual)})


def test_a_band_has_the_median_and_quartiles_of_first_times():
    """The residual goes up in between: what counts is when a level was first met."""
    runs = [run(k, [1, 10 * k, 11 * k, 20 * k], [1.0, 1e-3, 1e-1, 1e-9]) for k in range(1, 6)]
    found = band(runs, "kkt")
    place = int(np.searchsorted(-found.levels, -2e-3))
    assert (found.low[place], found.median[place], found.high[place]) == (20, 30, 40)
    assert found.levels[-1] == pytest.approx(1e-8), "nothing is shown below the tolerance"
    assert (found.low[-1], found.median[-1], found.high[-1]) == (40, 60, 80)
    two_of_five = [*runs[:3], *(run(k, [1, 99], [1.0, 0.5], status="MAX_ROUNDS") for k in (8, 9))]
    found = band(two_of_five, "kkt")
    assert found.median[-1] == 60 and found.high[-1] == np.inf


def test_bands_have_one_line_for_all_seeds_and_variants_look_different():
    names = ["iD2A", "iD2A, c = 2", "iD2A, c = 3", "iD2A, c = 4", "iD2A, c = 5", "iD2A, c = 6"]
    runs = [run(k, [1, 10 * k], [1.0, 1e-9], name) for name in names for k in range(1, 4)]
    figure = bands_figure(runs)
    lines = figure.axes[0].lines
    assert len(lines) == len(names) and len(figure.axes[0].collections) == len(names)
    assert len({line.get_marker() for line in lines}) == len(names)
    assert len({line.get_color() for line in lines}) == len(names)
    assert figure.get_size_inches()[0] < 7.5
