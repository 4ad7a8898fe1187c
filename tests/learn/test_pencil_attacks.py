"""Two quadratic forms of the same columns give these away: where that worked, and where it fails.

Let U be the table of the others in an unknown rotation. Two Gram matrices of the same rows, in
different scales of the columns, are a matrix pencil; its eigenvectors are the columns.
"""

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

import dual2 as d2
from dual2.learn.vertical import fitting, mixed_training
from dual2.learn.vertical.fitting import fit
from dual2.methods.subspace.smooth import Primal
from learning_offices import Offices, World, done

quiet = {"report": lambda text: None}
HOLDER, COUNT = 10, 20


def clinic() -> np.ndarray:
    data: Any = load_breast_cancer()
    return data.data


def best_match(found: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """For each true column the largest |correlation| with a candidate."""
    both = np.corrcoef(np.hstack([columns, found]).T)
    return np.abs(both[: columns.shape[1], columns.shape[1] :]).max(axis=1)


def pencil(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Columns from two mixed tables of the same rows, whose columns differ in scale.

    first = A D₁ Q₁ and second = A D₂ Q₂ with orthogonal Q: with second = first·T the columns are
    those of first along the eigenvectors of TTᵀ.
    """
    T = np.linalg.lstsq(first - first.mean(axis=0), second - second.mean(axis=0), rcond=None)[0]
    _, vectors = np.linalg.eigh(T @ T.T)
    return (first - first.mean(axis=0)) @ vectors


def offices_of(folder: Any, rows: np.ndarray, **more: str) -> Offices:
    data: Any = load_breast_cancer()
    tables: dict[str, dict[str, Any]] = {}
    for i, name in enumerate(("hospital", "lab", "insurer")):
        group = range(10 * i, 10 * i + 10)
        tables[name] = {f"x{j}": data.data[rows, j].tolist() for j in group}
    columns = {n: dict.fromkeys(t, '"number"') for n, t in tables.items()}
    tables["hospital"]["stroke"] = data.target[rows].tolist()
    world = World(tables, columns)
    return Offices(folder, world, labels="private = true", **more)


def watch_holder(patch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """The mixed tables that the holder gets."""
    seen: list[np.ndarray] = []
    right = mixed_training.mix_columns

    def spied(*args: Any) -> Any:
        found = right(*args)
        if found is not None:
            seen.append(found.rotated)
        return found

    patch.setattr(mixed_training, "mix_columns", spied)
    return seen


def test_preparation_in_every_fold_would_give_all_columns_away():
    """The attack: two folds with their own means and spreads, each mixed as in the protocol."""
    draw, X = np.random.default_rng(0), clinic()[:, HOLDER:]
    seen = []
    for fold in (slice(0, 400), slice(169, 569)):
        scaled = (X - X[fold].mean(axis=0)) / X[fold].std(axis=0)
        Q = np.linalg.qr(draw.standard_normal((COUNT, COUNT)))[0]
        seen.append((scaled @ Q)[169:400])  # the rows that both folds train on
    assert best_match(pencil(*seen), X[169:400]).min() > 0.9999


def test_a_search_gives_the_holder_one_table_only(tmp_path, monkeypatch):
    """The same attack on all that the holder gets, with the pencil of two folds."""
    seen = watch_holder(monkeypatch)
    search = '[search]\nparameter = "C"\nvalues = [0.1, 1.0]\nfolds = 3\nseed = 1\n'
    offices = offices_of(tmp_path / "all", np.arange(569), more=search)
    done(offices.everyone(lambda own: fit(own, **quiet)))
    [table] = seen
    first, second = table[:400], table[169:]
    grams = [part.T @ part / len(part) for part in (first, second)]
    values, vectors = np.linalg.eigh(grams[0])
    root = vectors / np.sqrt(values)
    _, turned = np.linalg.eigh(root.T @ grams[1] @ root)
    match = best_match(table @ root @ turned, clinic()[:, HOLDER:])
    assert np.median(match) < 0.9 and match.max() < 0.99


def two_studies(folder: Any, patch: pytest.MonkeyPatch, extra: str) -> list[np.ndarray]:
    """What the holder gets of two studies on one table, whose training rows differ."""
    seen = watch_holder(patch)
    offices = offices_of(folder, np.arange(569), extra=extra)
    first, second = np.arange(400), np.arange(169, 569)
    part = [first, second]
    load = fitting.load_rows

    def some(*args: Any) -> Any:
        rows = load(*args)
        return type(rows)(part[0], f"given {len(part[0])}")

    patch.setattr(fitting, "load_rows", some)
    done(offices.everyone(lambda own: fit(own, **quiet)))
    part[0] = second
    done(offices.everyone(lambda own: fit(own, force=True, **quiet)))
    return [seen[0][169:], seen[1][:231]]  # the rows of both


def test_two_studies_in_two_scales_give_the_columns_away(tmp_path, monkeypatch):
    """Which is why ``scales = "new"`` must be asked for by each party."""
    seen = two_studies(tmp_path / "all", monkeypatch, 'scales = "new"\n')
    assert best_match(pencil(*seen), clinic()[169:400, HOLDER:]).min() > 0.999


def test_two_studies_in_one_scale_do_not(tmp_path, monkeypatch):
    seen = two_studies(tmp_path / "all", monkeypatch, "")
    match = best_match(pencil(*seen), clinic()[169:400, HOLDER:])
    assert np.median(match) < 0.95 and match.max() < 0.999
    assert (tmp_path / "all" / "lab" / "table.csv.scales.json").exists()


# -- one run ---------------------------------------------------------------------------------------
def principal_scores(X: np.ndarray) -> np.ndarray:
    U, _, _ = np.linalg.svd(X, full_matrices=False)
    return U


def standardised() -> np.ndarray:
    X = clinic()
    return (X - X.mean(axis=0)) / X.std(axis=0)


def test_two_metrics_of_one_run_give_principal_scores_of_each_party(monkeypatch):
    """The method that all parties work in sums zᵀPz and zᵀ(P + AᵢᵀWAᵢ)z; both are public."""
    X, last = standardised(), {}
    right = Primal._append

    def spied(self: Primal, *args: Any) -> None:
        right(self, *args)
        last.update(H=self.current.H.copy(), S=self.current.products.copy())

    monkeypatch.setattr(Primal, "_append", spied)
    y = np.where(load_breast_cancer(return_X_y=True)[1] == 1, 1.0, -1.0)
    parts = np.split(X, 3, axis=1)
    agents = [d2.Agent(part, d2.SquaredNorm(1.0)) for part in parts]
    problem = d2.Problem(agents, d2.LogisticLoss(y))
    d2.solve_for_all(
        problem, d2.Network([(0, 1), (0, 2)]), method="Newton", mode="primal", tol=1e-14
    )
    assert len(last["H"]) >= 28  # nearly all directions were sent
    _, vectors = np.linalg.eigh(last["H"])
    found = (vectors.T @ last["S"]).T
    match = np.concatenate([best_match(found, principal_scores(part)[:, :8]) for part in parts])
    assert np.median(match) > 0.999


def test_the_mixed_table_shows_no_partys_principal_scores(tmp_path, monkeypatch):
    """One quadratic form only; the holder tries the pencil with weights of its own."""
    seen = watch_holder(monkeypatch)
    offices = offices_of(tmp_path / "all", np.arange(569))
    done(offices.everyone(lambda own: fit(own, **quiet)))
    [table] = seen
    weight = np.random.default_rng(0).uniform(0.1, 1.0, len(table))
    _, vectors = np.linalg.eigh(table.T @ (table * weight[:, None]))
    parts = np.split(standardised(), 3, axis=1)[1:]
    match = [best_match(table @ vectors, principal_scores(part)[:, :8]) for part in parts]
    assert np.median(np.concatenate(match)) < 0.9
