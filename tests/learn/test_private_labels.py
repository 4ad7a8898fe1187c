"""Labels that stay at their holder: the models, what the others can read, what is refused."""

from typing import Any

import numpy as np
import pytest
from sklearn import linear_model as lm
from sklearn.datasets import load_breast_cancer
from sklearn.svm import LinearSVC

from dual2.errors import Dual2Error, Refusal
from dual2.learn.vertical import receiver_sums
from dual2.learn.vertical.fitting import fit
from dual2.learn.vertical.mixed_columns import standard_normal
from dual2.learn.vertical.party_file import read_learn_party
from dual2.learn.vertical.session import summary
from dual2.learn.vertical.study import read_learn_study
from dual2.runtime.peers.masks import Randomness
from dual2.runtime.peers.parties import Parties
from learning_offices import Offices, World, done, joined, make_world, preparation

quiet = {"report": lambda text: None}
PRIVATE = {"labels": "private = true"}
TIGHT = {"tol": 1e-13, "max_iter": 10**6}


def clinic_world(parties: int = 3) -> World:
    """The breast cancer data, shared out by columns; the first party has the labels."""
    data: Any = load_breast_cancer()
    tables, columns = {}, {}
    for i, group in enumerate(np.array_split(np.arange(30), parties)):
        name = ("hospital", "lab", "insurer", "bank", "shop")[i]
        tables[name] = {f"x{j}": data.data[:, j].tolist() for j in group}
        columns[name] = {f"x{j}": '"number"' for j in group}
    tables["hospital"]["stroke"] = data.target.tolist()
    return World(tables, columns)


MODELS = {
    "logistic": ("LogisticRegression", "{}", 2, "stroke", lm.LogisticRegression(**TIGHT)),
    "multinomial": (
        "LogisticRegression",
        "{}",
        3,
        "stroke",
        lm.LogisticRegression(solver="newton-cg", **TIGHT),
    ),
    "ridge": ("Ridge", "{ alpha = 2.0 }", 2, "days", lm.Ridge(2.0)),
    "poisson": (
        "PoissonRegressor",
        "{ alpha = 0.1 }",
        4,
        "stroke",
        lm.PoissonRegressor(alpha=0.1, **TIGHT),
    ),
    "squared hinge": ("LinearSVC", "{}", 2, "stroke", LinearSVC(**TIGHT)),
}


@pytest.mark.parametrize("parties", [3, 5])
@pytest.mark.parametrize("name", MODELS)
def test_the_model_is_that_of_the_joined_table(tmp_path, name, parties):
    model, options, classes, label, truth = MODELS[name]
    names = ("hospital", "lab", "insurer", "bank", "shop")[:parties]
    world = make_world(80, 0, classes=classes, names=names, mixed=False)
    world.label = label
    offices = Offices(tmp_path / "all", world, model, options=options, **PRIVATE)
    found = done(offices.everyone(lambda own: fit(own, **quiet)))
    _, features, target = joined(world, label)
    truth.fit(preparation(features).fit_transform(features), target)
    own = np.hstack([found[name].coefficients for name in names])
    expected = np.atleast_2d(truth.coef_)
    assert np.max(np.abs(own - expected)) < 1e-7 * max(1.0, np.abs(expected).max())
    assert all(model.solved for model in found.values())
    assert found["lab"].about["certificate"]["checked_by"] == "hospital"


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A private study, and all numbers that the lab can read of the sums."""
    offices = Offices(tmp_path_factory.mktemp("private") / "all", clinic_world(), **PRIVATE)
    sums, words = [], []
    sum_, add = Parties.sum, Parties.add_words

    def summed(party: Parties, rows: Any, *rest: Any, **more: Any) -> Any:
        found = sum_(party, rows, *rest, **more)
        if party.rank == 1:
            sums.append(np.array(found))
        return found

    def added(party: Parties, *rest: Any) -> Any:
        found = add(party, *rest)
        if party.rank == 1:
            words.append(found[0].copy())
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Parties, "sum", summed)
        patch.setattr(Parties, "add_words", added)
        models = done(offices.everyone(lambda own: fit(own, **quiet)))
    return offices, models, sums, words


def test_a_partner_reads_its_own_coefficients_and_nothing_of_rows(study):
    """The lattice attack needs joint scores of rows: no sum that the lab can read has so many."""
    _, models, sums, words = study
    rows, K = 569, 20
    sizes = sorted(np.size(found) for found in sums)
    assert sizes[-1] == K + 4 < rows  # c, and four numbers about the end
    assert sum(sizes) < K + 4 + 40  # the rest: numbers of rows and columns
    told = max(sums, key=np.size).ravel()[4:]
    assert models["lab"].solved and np.all(np.isfinite(told))
    whole = np.concatenate([found.ravel() for found in words if found.shape[0] >= rows])
    assert len(whole) == rows * K  # the mixed table, but under the holder's random words
    high = np.bincount((whole >> np.uint64(60)).astype(int), minlength=16) / len(whole)
    assert np.all(np.abs(high - 1 / 16) < 0.02)


def test_without_the_holders_words_a_partner_would_read_the_table(tmp_path, monkeypatch):
    """The same count finds numbers of few sizes once the mechanism is taken away."""
    seen: list[np.ndarray] = []
    add = Parties.add_words

    def added(party: Parties, *rest: Any) -> Any:
        found = add(party, *rest)
        if party.rank == 1:
            seen.append(found[0].copy())
        return found

    class Silent(Randomness):
        def words(self, index: int, count: int) -> np.ndarray:
            found = super().words(index, count)
            return found * np.uint64(not index >= receiver_sums._TABLE_STREAM)

    monkeypatch.setattr(Parties, "add_words", added)
    monkeypatch.setattr("dual2.runtime.peers.masks.Randomness", Silent)
    offices = Offices(tmp_path / "all", clinic_world(), **PRIVATE)
    done(offices.everyone(lambda own: fit(own, **quiet)))
    whole = np.concatenate([found.ravel() for found in seen if found.shape[0] >= 569])
    high = np.bincount((whole >> np.uint64(60)).astype(int), minlength=16) / len(whole)
    assert np.any(np.abs(high - 1 / 16) > 0.2)


def test_labels_are_guessed_no_better_than_from_own_columns(study):
    """A curious partner has its columns and coefficients; true labels would teach it more."""
    offices, models, _, _ = study
    labels = np.array(offices.world.tables["hospital"]["stroke"])
    for name in ("lab", "insurer"):
        own = read_learn_party(offices.file(name))
        part = models[name].scores(own.table, np.arange(569))[:, 0]
        cut = np.quantile(part, 1 - labels.mean())  # even the share of classes is given away
        guess = np.mean((part > cut) == labels)
        X = models[name].preparation.apply(own.table, np.arange(569))
        best = lm.LogisticRegression(max_iter=1000).fit(X, labels).score(X, labels)
        assert guess <= best + 0.01 < 1.0


def test_directions_are_normal_and_differ_between_runs():
    words = Randomness(b"k" * 32).words(8, 40_000)
    found = standard_normal(words)
    assert abs(found.mean()) < 0.03 and abs(found.std() - 1.0) < 0.03
    assert abs(np.mean(found**4) - 3.0) < 0.3
    other = standard_normal(Randomness(b"l" * 32).words(8, 40_000))
    assert abs(np.corrcoef(found, other)[0, 1]) < 0.03
    assert np.array_equal(found, standard_normal(Randomness(b"k" * 32).words(8, 40_000)))


REFUSED = {
    "l1": ({"options": "{ l1_ratio = 0.5 }", "sums": "sums = { matrices = true }"}, "squares"),
    "receiver": ({"more": '[predictions]\nto = ["lab"]\n'}, "Name hospital alone"),
    "unmasked": ({"sums": "sums = { masked = false }"}, "masked sums"),
    "method": ({"learn": 'method = "L-BFGS"'}, "no learn.method"),
    "both": ({"labels": "private = true\nepsilon = 2.0"}, "one of the three"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_show_labels_is_refused(tmp_path, name):
    more, words = REFUSED[name]
    offices = Offices(tmp_path / "all", make_world(30, 0, mixed=False), **PRIVATE | more)
    with pytest.raises(Dual2Error, match=words):
        read_learn_study(offices.folder / "lab" / "study.toml")


def test_an_l1_penalty_wants_consent_to_what_it_shows(tmp_path):
    world = make_world(30, 0, mixed=False)
    offices = Offices(tmp_path / "all", world, "Lasso")
    with pytest.raises(Dual2Error, match=r"l1 penalty here.*sums.matrices = true"):
        read_learn_study(offices.folder / "lab" / "study.toml")


def test_a_holder_without_columns_is_refused(tmp_path):
    world = make_world(30, 0, mixed=False)
    world.columns["hospital"] = {}
    found = Offices(tmp_path / "all", world, **PRIVATE).everyone(lambda own: fit(own, **quiet))
    assert isinstance(found["hospital"], Refusal) and "a column of the holder" in str(
        found["hospital"]
    )
    assert "has no columns of its own" in str(found["lab"])


def test_rare_categories_are_left_out_and_counted(tmp_path):
    """A column that is not zero in three rows would tell their labels."""
    world = make_world(60, 0, mixed=False)
    ward = world.tables["lab"]["ward"]
    ward[:3] = ["attic"] * 3
    offices, said = Offices(tmp_path / "all", world, **PRIVATE), []
    report = lambda own: said.append if own.party.name == "lab" else quiet["report"]  # noqa: E731
    found = done(offices.everyone(lambda own: fit(own, report=report(own))))
    assert "ward=attic" not in found["lab"].preparation.outputs
    assert any("1 category value with fewer than 10 rows" in line for line in said)


def test_the_summary_says_what_remains(tmp_path):
    offices = Offices(tmp_path / "all", make_world(30, 0, mixed=False), **PRIVATE)
    said = summary(read_learn_party(offices.file("lab")))
    for words in ("stay at their holder", "150 of 150", "Gram matrix of all others together"):
        assert words in said
