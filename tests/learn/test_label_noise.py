"""Randomised labels that are asked for again and again: what an attacker gains."""

import math
from pathlib import Path

import numpy as np
import pytest

from dual2.errors import Dual2Error, Refusal
from dual2.learn.vertical.label_noise import keep_probability, randomise
from dual2.learn.vertical.labels import read_labels
from dual2.learn.vertical.party_file import read_learn_party
from learning_offices import Offices, make_world, write_csv

ROWS, ATTEMPTS = 1500, 9


@pytest.fixture
def offices(tmp_path) -> Offices:
    world = make_world(ROWS, 0, mixed=False)
    labels = np.random.default_rng(3).integers(0, 2, ROWS)
    world.tables["hospital"]["stroke"] = labels.tolist()
    return Offices(tmp_path, world, labels="epsilon = 1.0")


def attempt(offices: Offices, epsilon: float = 1.0, budget: float | None = None) -> np.ndarray:
    """What the others are shown by one more run, in a new state folder, under this ε."""
    party, study = offices.file("hospital"), offices.folder / "hospital" / "study.toml"
    count = len(list(party.parent.glob("state*")))
    (party.parent / f"state{count}").mkdir()
    party.write_text(party.read_text().replace('state = "state', f'state = "state{count}_', 1))
    labels = f"epsilon = {epsilon!r}" + (f"\nbudget = {budget!r}" if budget else "")
    lines = offices.study.replace("epsilon = 1.0", labels).replace("trial", f"trial{count}")
    study.write_text(lines)
    own = read_learn_party(party)
    return read_labels(own, own.table, np.arange(len(own.table))).values


def rightly(offices: Offices, guess: np.ndarray) -> float:
    return float(np.mean(guess == np.array(offices.world.tables["hospital"]["stroke"])))


def bound(epsilon: float, rows: int = ROWS) -> float:
    """Rate of right guesses that ε allows, with five standard deviations."""
    kept = keep_probability(epsilon, 2)
    return kept + 5.0 * math.sqrt(kept * (1.0 - kept) / rows)


def test_new_state_folders_show_no_more_than_one_run(offices):
    """Nine attempts, a majority vote: without a key of the table 0.94 of the labels are found."""
    shown = np.array([attempt(offices) for _ in range(ATTEMPTS)])
    assert (shown == shown[0]).all()
    assert rightly(offices, np.round(shown.mean(axis=0))) <= bound(1.0)


def test_nearby_epsilons_show_no_more_than_the_largest(offices):
    """Nine ε near 1: neither a vote nor the rows whose answer changes tell more."""
    epsilons = np.linspace(0.6, 1.0, ATTEMPTS)
    shown = np.array([attempt(offices, float(one), 1.0) for one in epsilons])
    assert rightly(offices, np.round(shown.mean(axis=0))) <= bound(1.0)
    true = np.array(offices.world.tables["hospital"]["stroke"])
    changed = shown[0] != shown[-1]
    assert changed.sum() > 50
    assert np.mean(shown[-1][changed] == true[changed]) <= bound(1.0, int(changed.sum()))


def test_every_pair_of_answers_is_private():
    """P(answers | label) for two ε, counted: no pair tells more than the larger ε."""
    rows, names = [str(k) for k in range(12_000)], ("no", "yes")
    counts = []
    for label in (0, 1):
        codes = np.full(len(rows), label)
        shown = [randomise(codes, rows, names, one, b"key") for one in (0.5, 1.5)]
        counts.append(np.bincount(np.array([2, 1]) @ np.array(shown), minlength=4))
    ratio = np.maximum(counts[0] / counts[1], counts[1] / counts[0])
    least = np.min(counts)
    assert least > 300
    assert ratio.max() <= math.exp(1.5) * (1.0 + 5.0 * math.sqrt(2.0 / least))


def test_ids_have_one_form(offices):
    """Spaces, full-width letters and another order of rows do not draw new noise."""
    first = attempt(offices)
    table = dict(offices.world.tables["hospital"])
    table["patient"] = [f"  {one.replace('p', chr(0xFF50))} " for one in table["patient"]]
    order = np.random.default_rng(1).permutation(ROWS)
    table = {name: [column[k] for k in order] for name, column in table.items()}
    write_csv(offices.folder / "hospital" / "table.csv", table)
    assert np.array_equal(attempt(offices), first[order])


def test_the_budget_counts_what_earlier_studies_have_shown(offices):
    attempt(offices, 1.0)
    attempt(offices, 0.5, 1.0)  # adds nothing
    with pytest.raises(Refusal, match=r"total of ε = 1; the study's budget is 0.5"):
        attempt(offices, 0.5)
    table = dict(offices.world.tables["hospital"])
    table["stroke"] = [1 - table["stroke"][0], *table["stroke"][1:]]
    write_csv(offices.folder / "hospital" / "table.csv", table)
    with pytest.raises(Refusal, match=r"total of ε = 2; the study's budget is 1"):
        attempt(offices)
    attempt(offices, 1.0, 2.0)


@pytest.mark.parametrize("lost", ["table.csv.label-key", "table.csv.label-key.ledger"])
def test_noise_that_was_lost_is_not_replaced(offices, lost):
    attempt(offices)
    (offices.folder / "hospital" / lost).unlink()
    with pytest.raises(Refusal, match="is missing"):
        attempt(offices)


def test_rows_without_ids_are_refused(offices):
    table = dict(offices.world.tables["hospital"])
    ids = table.pop("patient")
    write_csv(offices.folder / "hospital" / "table.csv", table)
    with pytest.raises(Refusal, match="needs the ids of the rows"):
        attempt(offices)
    table["patient"] = [*ids[:-2], "07", "7"]
    write_csv(offices.folder / "hospital" / "table.csv", table)
    with pytest.raises(Refusal, match="must be unique"):
        attempt(offices)


def test_the_key_stays_where_the_party_says(offices):
    offices.change("hospital", "party.toml", "[table]", '[table]\nlabel_key = "safe/key"')
    attempt(offices)
    folder = Path(offices.folder / "hospital" / "safe")
    assert {one.name for one in folder.iterdir()} == {"key", "key.ledger", "key.lock"}


def test_a_budget_below_epsilon_is_refused(offices):
    with pytest.raises(Dual2Error, match="expected a number of at least"):
        attempt(offices, 1.0, 0.5)
