"""Dependent columns between organisations, and models that may not be used."""

import json

import numpy as np
import pytest

from dual2.errors import Dual2Error
from dual2.learn.vertical.fitting import fit
from dual2.learn.vertical.prediction import predict
from learning_offices import Offices, done, joined, make_world, preparation

quiet = {"report": lambda text: None}


@pytest.fixture(scope="module")
def offices(tmp_path_factory):
    """Least squares without a penalty: a category beside an intercept, a column at two parties."""
    world = make_world(40, 0, mixed=False)
    world.label = "days"
    world.tables["insurer"]["again"] = list(world.tables["hospital"]["x0"])
    world.columns["insurer"]["again"] = '"number"'
    folder = tmp_path_factory.mktemp("rank") / "all"
    made, said = Offices(folder, world, "Ridge", options="{ alpha = 0.0 }"), {}

    def train(own):
        lines = said.setdefault(own.party.name, [])
        return fit(own, report=lines.append)

    return made, done(made.everyone(train)), said


def test_coefficients_are_those_of_minimum_norm(offices):
    made, found, said = offices
    _, features, label = joined(made.world, "days")
    X = preparation(features).fit_transform(features)
    centred = X - X.mean(axis=0)
    truth = np.linalg.lstsq(centred, label - label.mean(), rcond=1e-12)[0]
    own = np.hstack([found[name].coefficients for name in made.names])[0]
    np.testing.assert_allclose(own, truth, atol=1e-7 * np.abs(truth).max())
    assert all(model.solved for model in found.values())
    told = {name: [line for line in lines if "WARNING" in line] for name, lines in said.items()}
    assert [len(told[name]) for name in made.names] == [0, 1, 0]  # each of its own columns only
    assert "ward" in told["lab"][0] and "minimum norm" in told["lab"][0]


def test_a_model_that_has_not_converged_predicts_only_if_asked(offices):
    made, _, _ = offices
    for name in made.names:
        file = made.state(name) / "model.json"
        model = json.loads(file.read_text())
        file.write_text(json.dumps(model | {"status": "STALLED"}))
    refused = made.everyone(lambda own: predict(own, own.table, "no", **quiet))
    for error in refused.values():
        assert isinstance(error, Dual2Error)
        assert str(error).startswith("NOT SOLVED (stalled) after ")
        assert "Penalise more" in str(error) and "--accept-unsolved" in str(error)
    said = []
    told = made.everyone(
        lambda own: predict(own, own.table, "yes", report=said.append, accept="unsolved")
    )
    assert len(done(told)["hospital"].values) == 40
    assert sum(line.startswith("NOT SOLVED (stalled)") for line in said) == 3
