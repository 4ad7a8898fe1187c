"""Vertical learning between organisations: seconds, sums and megabytes per link, by processes.

``psi``: common rows of two parties by private set intersection. ``fit``: a logistic regression over
four parties on loopback, beside scikit-learn's on the joined table, then predictions. ``commands``:
the example of ``dual2 learn example`` by its documented commands alone, and how many there are.
``labels``: what randomised labels cost on breast cancer data, and what of them can be read off.
Bytes are those of frames before encryption; every party is a process of its own.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))
from common import interpreter
from common.report import Report, parse
from dual2.learn import VerticalLogisticRegression
from dual2.learn.vertical.example import PARTIES, write_example
from dual2.learn.vertical.fitting import align, fit
from dual2.learn.vertical.label_noise import keep_probability, randomise
from dual2.learn.vertical.party_file import LearnParty, read_learn_party
from dual2.learn.vertical.prediction import predict
from dual2.runtime.peers.audit import verify
from dual2.runtime.peers.tls_transport import Connection
from learning_offices import Offices, World, done
from party_offices import free_ports

CHILD = "--child"
"""First argument of the processes that this one starts."""
PER_PARTY = 10
"""Columns of each party in ``fit``."""


class Meter:
    """Counts what the parties of this process send."""

    def __init__(self) -> None:
        self.sent, self._original = 0, Connection.put

    def __enter__(self) -> "Meter":
        meter, original = self, self._original

        def counted(self: Connection, *parts: bytes) -> bool:
            done = original(self, *parts)
            meter.sent += sum(len(part) for part in parts) if done else 0
            return done

        Connection.put = counted  # type: ignore[method-assign]
        return self

    def __exit__(self, *error: object) -> None:
        Connection.put = self._original  # type: ignore[method-assign]


def take_part(own: LearnParty, work: str) -> dict[str, Any]:
    """One party's part, and what it cost."""
    own.table.digest([])  # read before the clock starts
    quiet: Any = {"report": lambda text: None}
    begun, worked = time.perf_counter(), time.process_time()
    if work == "align":
        rows = align(own, **quiet)
        found: dict[str, Any] = {"rows": len(rows), "digest": rows.digest}
    elif work == "fit":
        model = fit(own, **quiet)
        found = {"coef": model.coefficients[0].tolist()}
    else:
        made = predict(own, own.table, **quiet)
        found = {"scores": None if made.scores is None else made.scores[:, 0].tolist()}
    found |= {"processor": time.process_time() - worked}
    return found | {"seconds": time.perf_counter() - begun}


def together(offices: Offices, work: str, smoke: bool) -> list[dict[str, Any]]:
    """A process for each party (threads for a smoke test); what each found."""
    if smoke:
        with Meter() as meter:
            answers = done(offices.everyone(lambda own: take_part(own, work)))
        each = {"sent": meter.sent / len(answers)}
        return [answers[name] | each for name in offices.names]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    line = [*interpreter.PYTHON, str(Path(__file__).resolve()), CHILD, work]
    running = [
        subprocess.Popen(
            [*line, str(offices.file(name))], stdout=subprocess.PIPE, text=True, env=environment
        )
        for name in offices.names
    ]
    said = [process.communicate()[0] for process in running]
    if any(process.returncode for process in running):
        raise RuntimeError(f"a party failed in {work}")
    return [json.loads(text) for text in said]


def count_sums(offices: Offices, phase: str) -> int:
    """Sums over all parties, of any kind, as the log of a run has them."""
    return verify(offices.state(offices.names[0]) / phase / "audit.jsonl")["sum"]


def report_psi(report: Report, options: argparse.Namespace, folder: Path) -> None:
    """Two parties, of whose rows half are common."""
    count = options.ids
    tables = {
        name: {"patient": [f"p{k:07d}" for k in range(first, first + count)], "x0": [1.0] * count}
        for name, first in (("hospital", 0), ("lab", count // 2))
    }
    tables["hospital"]["stroke"] = [k % 2 for k in range(count)]
    world = World(tables, {name: {"x0": '"number"'} for name in tables})
    offices = Offices(folder / "psi", world, policy="psi", sums="sums = { masked = false }")
    found = together(offices, "align", options.smoke)
    report.expect({one["rows"] for one in found} == {count - count // 2}, "the common rows")
    report.expect(len({one["digest"] for one in found}) == 1, "the same rows in the same order")
    sums = count_sums(offices, "align")
    rows = [
        (name, count, one["rows"], one["seconds"], one["processor"], sums, one["sent"] / 1e6)
        for name, one in zip(offices.names, found, strict=True)
    ]
    head = ("party", "ids", "common", "seconds", "processor seconds", "sums", "MB sent")
    report.table("Private set intersection of two parties", head, rows)


def report_fit(report: Report, options: argparse.Namespace, folder: Path) -> None:
    """Four parties around the holder of the labels, rows as given."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    names, draw = ["hospital", "lab", "insurer", "bank"], np.random.default_rng(0)
    X = draw.standard_normal((options.rows, PER_PARTY * len(names)))
    y = (X @ draw.standard_normal(X.shape[1]) / 3 + draw.standard_normal(len(X)) > 0).astype(int)
    tables: dict[str, dict[str, list[Any]]] = {}
    columns = {}
    for i, name in enumerate(names):
        own = range(PER_PARTY * i, PER_PARTY * (i + 1))
        tables[name] = {f"x{j}": X[:, j].tolist() for j in own}
        columns[name] = {f"x{j}": '"number"' for j in own}
    tables["hospital"]["stroke"] = y.tolist()
    offices = Offices(folder / "fit", World(tables, columns))
    found = together(offices, "fit", options.smoke)
    told = together(offices, "predict", options.smoke)
    begun = time.perf_counter()
    scaled = StandardScaler().fit_transform(X)
    truth = LogisticRegression(tol=1e-10, max_iter=1000).fit(scaled, y)
    central = time.perf_counter() - begun
    error = np.max(np.abs(np.concatenate([one["coef"] for one in found]) - truth.coef_[0]))
    scores = np.max(np.abs(np.array(told[0]["scores"]) - truth.decision_function(scaled)))
    report.expect(error < 1e-6 and scores < 1e-5, f"scikit-learn's model ({error:.1e})")
    report.expect(all(one["scores"] is None for one in told[1:]), "scores for the hospital alone")
    rows = []
    for work, answers in (("fit", found), ("predict", told)):
        seconds = max(one["seconds"] for one in answers)
        sums = count_sums(offices, "predict-1" if work == "predict" else work)
        links = [one["sent"] / 1e6 for one in answers[1:]]  # each of them has one link
        worked = max(one["processor"] for one in answers)
        down = answers[0]["sent"] / 1e6 / len(links)
        rows.append((work, seconds, worked, sums, max(links), down))
    head = ("", "seconds", "processor seconds", "sums", "MB up per link", "MB down per link")
    size = f"{options.rows} rows × {X.shape[1]} columns over {len(names)} parties"
    report.table(f"Logistic regression, {size}", head, rows)
    report.say(f"Coefficients to {error:.1e}; scikit-learn on one table takes {central:.2f} s.")


def _children() -> float:
    """Processor seconds of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def report_commands(report: Report, options: argparse.Namespace, folder: Path) -> None:
    """The example, as its documentation tells it."""
    made = write_example(folder / "trial")
    ports = free_ports(len(PARTIES))
    lines = 0
    for name in PARTIES:
        file = made / name / "party.toml"
        text = file.read_text()
        for k, port in enumerate(ports):
            text = text.replace(f"127.0.0.1:{7443 + k}", f"127.0.0.1:{port}")
        file.write_text(text)
        lines += sum(bool(line.strip()) and line[0] != "#" for line in text.splitlines())
    study = (made / PARTIES[0] / "study.toml").read_text().splitlines()
    lines += sum(bool(line.strip()) and line[0] != "#" for line in study)
    parties = PARTIES[:1] if options.smoke else PARTIES
    commands, rows = (("summary",), ("align",), ("fit",), ("predict", "new.csv")), []
    for command, *more in commands[:1] if options.smoke else commands:
        begun, before = time.perf_counter(), _children()
        running = [
            subprocess.Popen(
                [*interpreter.PYTHON, "-m", "dual2.cli", "learn", command, "party.toml", *more],
                cwd=made / name,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            for name in parties
        ]
        said = [process.communicate()[1] for process in running]
        for name, process, text in zip(parties, running, said, strict=True):
            report.expect(process.returncode == 0, f"dual2 learn {command} at {name}: {text}")
        each = (_children() - before) / len(parties)
        rows.append((f"dual2 learn {command}", time.perf_counter() - begun, each))
        told = ["", *said[0].strip().splitlines()]
    head = ("command", "seconds", "processor seconds of a party")
    report.table("The example, three processes each", head, rows)
    report.say(f"{len(rows)} commands a party, {lines} lines of configuration in all. {told[-1]}")


def report_labels(report: Report, options: argparse.Namespace, folder: Path) -> None:
    """What randomised labels cost and what they hide, on breast cancer data."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.model_selection import train_test_split

    X, y = load_breast_cancer(return_X_y=True)
    X, new, y, truth = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
    ids, rows = [str(k) for k in range(len(y))], []
    model = VerticalLogisticRegression(C=0.05, parties=3, standardize=True)
    for epsilon in (None, 3.0, 2.0, 1.0, 0.5):
        found = []
        for seed in range(1 if epsilon is None else options.seeds):
            key = f"{seed}".encode()
            told = y if epsilon is None else randomise(y, ids, ("0", "1"), epsilon, key)
            model.fit(X, told)
            guess = (model.result_.dual < 0).astype(int)
            found.append((model.score(new, truth), np.mean(guess == y)))
        test, attack = np.mean(found, axis=0)
        bound = 1.0 if epsilon is None else keep_probability(epsilon, 2)
        report.expect(abs(attack - bound) < 0.05, "labels read off the price")
        rows.append(("none" if epsilon is None else f"{epsilon:g}", test, attack, bound))
    head = ("ε", "test accuracy", "labels right by the sign of λ", "e^ε/(1 + e^ε)")
    size = f"{len(y)} rows to train, {len(truth)} to test, {options.seeds} draws"
    report.table(f"Randomised labels, {size}", head, rows)


PARTS = {"commands": report_commands, "fit": report_fit, "labels": report_labels, "psi": report_psi}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ids", type=int, default=100_000, help="ids of each party in psi")
    parser.add_argument("--rows", type=int, default=100_000, help="rows in fit")
    parser.add_argument("--seeds", type=int, default=20, help="draws of noise in labels")
    options = parse(parser, PARTS, ids=100, rows=200, seeds=2)
    report = Report(options)
    with tempfile.TemporaryDirectory() as folder:
        for part in options.parts:
            PARTS[part](report, options, Path(folder))
    report.end()


if __name__ == "__main__":
    if sys.argv[1:2] == [CHILD]:
        with Meter() as meter:
            answer = take_part(read_learn_party(Path(sys.argv[3])), sys.argv[2])
        print(json.dumps(answer | {"sent": meter.sent}))
    else:
        main()
