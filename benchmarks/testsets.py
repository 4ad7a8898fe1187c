"""Public test sets: every MPS, QPS, LP and .mat file of a folder by dual2 and by central solvers.

A model is dealt to ``--agents`` owners by columns; its rows are the coupling. An answer is right if
it is CONVERGED with the objective of the reference to 1e-6 and no violation above 1e-4. In a folder
whose name contains "infeas", INFEASIBLE is right, with a certificate that is checked from the
arrays of the file alone. Any other answer under CONVERGED, INFEASIBLE or UNBOUNDED is wrong.

The reference is the least objective of HiGHS and CLARABEL (1e-9) with a violation below 1e-6, or
comes from ``--references``, a table that an earlier run has written with ``--csv``. Each model has
a process of its own, killed after its limit. Processor seconds exclude compiling: small models are
solved first, and the processes are forked then.
"""

import argparse
import csv
import json
import os
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from common.central_solvers import installed
from common.interpreter import PYTHON
from common.report import Report, parse

HERE = Path(__file__).resolve().parent
ENDINGS = (".mps", ".qps", ".sif", ".lp", ".mat")
CLOSE, VIOLATED, FEASIBLE = 1e-6, 1e-4, 1e-6
REFERENCES = ("HiGHS", "CLARABEL")
FINAL = {"CONVERGED", "SOLVED", "INFEASIBLE", "UNBOUNDED"}
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
HEAD = ["model", "rows", "variables", "status", "judged", "objective", "error", "violation", "KKT"]
HEAD += ["iterations", "exchanges", "sums", "numbers", "margin", "s", "/ CLARABEL"]
FIELDS = ["set", "model", "solver", "status", "judged", "objective", "error", "violation", "kkt"]
FIELDS += ["iterations", "exchanges", "sums", "floats", "cpu", "margin", "rows", "variables", "by"]
NUMBERS = {*FIELDS} - {"set", "model", "solver", "status", "judged", "by"}
SAMPLE = {
    "feasible/transport.mps": (
        "NAME TRANSPORT\nROWS\n N cost\n E a\n E b\n G c\n G d\nCOLUMNS\n"
        " x1 cost 4 a 1\n x1 c 1\n x2 cost 6 a 1\n x2 d 1\n x3 cost 5 b 1\n x3 c 1\n"
        " x4 cost 3 b 1\n x4 d 1\nRHS\n R a 7 b 5\n R c 6 d 4\nENDATA\n"
    ),
    "feasible/portfolio.lp": (
        "minimize\n risk: - x - y + [ 2 x^2 + 2 x * y + 3 y^2 + z^2 ] / 2\nsubject to\n"
        " budget: x + y + z = 1\n part: x - z <= 0.5\nend\n"
    ),
    "infeasible/floor.mps": (
        "NAME FLOOR\nROWS\n N cost\n L top\n G low\nCOLUMNS\n x cost 1 top 1\n x low 1\n"
        " y top 1 low 1\nRHS\n R top 1 low 2\nENDATA\n"
    ),
}
"""What ``--smoke`` solves."""


def files(folder: Path, only: list[str]) -> list[Path]:
    """Models of the folder and its subfolders, the smallest files first."""
    found = [
        path
        for path in folder.rglob("*")
        if path.name.lower().removesuffix(".gz").endswith(ENDINGS)
        and (not only or name_of(path) in only)
    ]
    return sorted(found, key=lambda path: (path.parent.name, path.stat().st_size))


def name_of(path: Path) -> str:
    """A file's name without its endings."""
    return Path(path.name.removesuffix(".gz")).stem


def rows_from_worker(job: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What the worker prints, as it comes."""
    known = {**os.environ, **dict.fromkeys(THREADS, "1")}
    known["PYTHONPATH"] = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    with subprocess.Popen(
        [*PYTHON, "-m", "common.testset_worker"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=known, cwd=HERE, text=True,
    ) as worker:  # fmt: skip
        assert worker.stdin and worker.stdout
        json.dump(job, worker.stdin)
        worker.stdin.close()
        for line in worker.stdout:
            yield json.loads(line)
    if worker.returncode:
        raise SystemExit(f"The worker ended with exit code {worker.returncode}.")


def read_references(path: str | None) -> dict[str, list[dict[str, Any]]]:
    """Rows of central solvers that an earlier run has written, by model."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    if path:
        with Path(path).open() as stream:
            for row in csv.DictReader(stream):
                if row["solver"] != "dual2":
                    read = {
                        k: float(v) if v and k in NUMBERS else v or None for k, v in row.items()
                    }
                    found[f"{row['set']}/{row['model']}"].append(read)
    return found


def reference_of(rows: list[dict[str, Any]], infeasible: bool) -> tuple[str, float | None]:
    """Status and objective to compare with; models are minimised."""
    if infeasible:
        return "INFEASIBLE", None
    known = [row for row in rows if row["solver"] in REFERENCES and row["status"] in FINAL]
    solved = [
        row["objective"]
        for row in known
        if row["status"] == "SOLVED" and (row.get("violation") or 0.0) <= FEASIBLE
    ]
    if solved:
        return "CONVERGED", min(solved)
    return (known[0]["status"].replace("SOLVED", "CONVERGED"), None) if known else ("", None)


def judge(row: dict[str, Any], reference: tuple[str, float | None]) -> None:
    """Add the error of the objective, and whether the answer is right, wrong, or none."""
    status, (expected, objective) = row["status"].replace("SOLVED", "CONVERGED"), reference
    row["error"] = None
    if objective is not None and row.get("objective") is not None:
        row["error"] = abs(row["objective"] - objective) / max(1.0, abs(objective))
    if status not in FINAL:
        row["judged"] = "not solved"
    elif not expected:
        row["judged"] = "no reference"
    elif status != expected:
        row["judged"] = "WRONG"
    elif status == "CONVERGED":
        good = (row["error"] or 0.0) <= CLOSE and (row.get("violation") or 0.0) <= VIOLATED
        row["judged"] = "right" if good else "WRONG"
    elif row["solver"] == "dual2" and status == "INFEASIBLE":
        row["judged"] = "right" if (row.get("margin") or 0.0) > 0 else "WRONG"
    else:
        row["judged"] = "right"


def judged_model(path: Path, rows: list[dict[str, Any]], job: dict[str, Any]) -> list[dict]:
    """The rows of one model, with a row for dual2 if it was killed, all judged."""
    if "dual2" in job["solvers"] and not any(row["solver"] == "dual2" for row in rows):
        rows.append({"solver": "dual2", "status": "KILLED"})
    reference = reference_of(rows, "infeas" in path.parent.name.lower())
    for row in rows:
        row.update(set=path.parent.name, model=name_of(path))
        judge(row, reference)
    return rows


def cells(rows: list[dict[str, Any]]) -> list[Any] | None:
    """dual2's row of the table."""
    by = {row["solver"]: row for row in rows}
    if "dual2" not in by:
        return None
    ours, theirs = by["dual2"], by.get("CLARABEL", {}).get("cpu")
    ratio = ours["cpu"] / max(theirs, 1e-4) if ours.get("cpu") and theirs else ""
    keys = ["rows", "variables", "status", "judged", "objective", "error", "violation", "kkt"]
    keys += ["iterations", "exchanges", "sums", "floats", "margin", "cpu"]
    shown = ["" if ours.get(key) is None else ours[key] for key in keys]
    return [ours["model"], *shown, ratio]


def totals(report: Report, rows: list[dict[str, Any]]) -> None:
    """How many each solver got right, by set; exchanges and seconds of ours."""
    table = []
    clarabel = {(r["set"], r["model"]): r.get("cpu") for r in rows if r["solver"] == "CLARABEL"}
    for name in sorted({row["set"] for row in rows}):
        for solver in dict.fromkeys(row["solver"] for row in rows):
            mine = [row for row in rows if (row["set"], row["solver"]) == (name, solver)]
            if not mine:
                continue
            count = [
                sum(row["judged"] == word for row in mine)
                for word in ("right", "WRONG", "not solved")
            ]
            seconds = [row["cpu"] for row in mine if row.get("cpu") is not None]
            ratios = [
                row["cpu"] / max(clarabel[row["set"], row["model"]] or 0.0, 1e-4)
                for row in mine
                if row.get("cpu") and clarabel.get((row["set"], row["model"]))
            ]
            sent = [
                row["exchanges"]
                for row in mine
                if row["judged"] == "right" and row.get("exchanges") is not None
            ]
            table.append(
                [
                    name,
                    solver,
                    len(mine),
                    *count,
                    *_quantiles(sent),
                    sum(seconds),
                    *_quantiles(ratios),
                ]
            )
    head = ["set", "solver", "models", "right", "WRONG", "not solved", "exchanges: median", "90 %"]
    report.table("Totals", [*head, "CPU s", "/ CLARABEL: median", "90 %"], table)


def _quantiles(numbers: list[float]) -> list[Any]:
    return [float(np.quantile(numbers, q)) for q in (0.5, 0.9)] if numbers else ["", ""]


def write_csv(path: str, rows: list[dict[str, Any]]) -> None:
    with Path(path).open("w", newline="") as stream:
        table = csv.DictWriter(stream, FIELDS, extrasaction="ignore")
        table.writeheader()
        table.writerows(rows)


def measure(report: Report, options: argparse.Namespace) -> None:
    """Run, show each model as it ends, then the totals."""
    kept = read_references(options.references)
    ours = [] if options.method == "none" else ["dual2"]
    solvers = [*([] if kept else options.solvers), *ours]
    keys = ("agents", "seed", "method", "limit", "tol", "network", "private_rows")
    paths = files(Path(options.folder).resolve(), options.only)
    job = {key: getattr(options, key) for key in keys}
    job |= {"solvers": solvers, "paths": [str(path) for path in paths]}
    rows, table = [], []
    current: list[dict[str, Any]] = []
    for row in rows_from_worker(job):
        path = Path(row.pop("path"))
        if row["solver"]:
            current.append(row)
            continue
        current += [dict(one) for one in kept.get(f"{path.parent.name}/{name_of(path)}", ())]
        done = judged_model(path, current, job)
        rows, current = rows + done, []
        shown = cells(done)
        if shown:
            table.append(shown)
            print(" ".join(map(_short, shown)), flush=True)
        if options.csv:
            write_csv(options.csv, rows)
    report.table(f"{options.agents} agents, method {options.method}", HEAD, table)
    totals(report, rows)
    if options.smoke:
        bad = [(r["model"], r["solver"]) for r in rows if r["judged"] != "right"]
        report.expect(rows and not bad, f"not right: {bad}.")


def _short(value: Any) -> str:
    """A cell of the line that is printed when a model has ended."""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", help="with the files, also in subfolders")
    parser.add_argument("--agents", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0, help="of the deal")
    parser.add_argument("--method", default="auto", help="of dual2; none: central solvers alone")
    parser.add_argument("--network", default="star", choices=["star", "path", "complete"])
    parser.add_argument("--tol", type=float, default=1e-8)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for each solver")
    parser.add_argument("--only", nargs="*", default=[], help="names of models")
    parser.add_argument(
        "--private-rows", action="store_true", help="rows of one owner stay with it"
    )
    parser.add_argument("--solvers", nargs="*", default=installed(), help="central ones")
    parser.add_argument(
        "--references", help="a table that --csv has written, instead of running them"
    )
    parser.add_argument("--csv", help="write every row to this file")
    options = parse(parser)
    report = Report(options)
    if options.folder:
        measure(report, options)
    elif options.smoke:
        with tempfile.TemporaryDirectory() as folder:
            options.folder = folder
            for name, text in SAMPLE.items():
                path = Path(folder) / name
                path.parent.mkdir(exist_ok=True)
                path.write_text(text)
            measure(report, options)
    else:
        parser.error("give --folder, or --smoke for three small models of ours")
    report.end()


if __name__ == "__main__":
    main()
