"""``model.json``: one party's part of a model, and nothing of the others.

A score of a row is the sum over the parties of coefficients times prepared values, plus constants.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dual2.errors import Dual2Error, Refusal
from dual2.files import read_json
from dual2.learn.inference import Summary
from dual2.learn.vertical.party_file import LearnParty
from dual2.learn.vertical.preparation import Preparation, read_preparation
from dual2.learn.vertical.tables import Table
from dual2.runtime.peers.folder import create
from dual2.solving.result import Status

Array = np.ndarray
MODEL = "model.json"
FORMAT = 1
_OTHERWISE = (
    "Penalise more, drop columns that others determine (a warning of fit names them), or loosen "
    "learn.tol; then fit again with --force at all parties."
)
_ADVICE: dict[str, str] = {
    Status.DIVERGED: (
        "There is no finite solution: classes that can be separated, or counts that are all 0. "
        "Penalise, and fit again with --force at all parties."
    )
}
"""What to do about an end other than CONVERGED."""


@dataclass(frozen=True)
class PartyModel:
    """Coefficients of a party's own columns, with what prepares them."""

    preparation: Preparation
    coefficients: Array  # one row per decision function, one column per prepared column
    constants: Array  # what this party adds to every score: the intercept is among the holder's
    classes: tuple[str, ...] = ()  # their names, at the holder of the labels
    about: dict[str, Any] = field(default_factory=dict)  # for people: certificate, counts, rows

    @property
    def solved(self) -> bool:
        """Whether training converged; else nothing may be predicted without being asked for."""
        return self.about.get("status") == Status.CONVERGED

    @property
    def notice(self) -> str:
        """How training ended, how far it is from the tolerance, and what to do about it."""
        status = str(self.about.get("status"))
        certificate = self.about.get("certificate")
        kkt = certificate.get("kkt") if isinstance(certificate, dict) else None
        far = f" KKT residual {kkt:.1e}." if isinstance(kkt, float) else ""
        return (
            f"NOT SOLVED ({status.replace('_', ' ').lower()}) after {self.about.get('sums')} sums: "
            f"the coefficients are not those of the model.{far} {_ADVICE.get(status, _OTHERWISE)}"
        )

    @property
    def thresholds(self) -> Array | None:
        """Those of an ordinal model, at the holder of the labels."""
        found = self.about.get("thresholds")
        return None if found is None else np.array(found, dtype=np.float64)

    def inference(self) -> Summary | None:
        """Standard errors and intervals of this party's coefficients, if the study asked for them.

        The last rows at the holder of the labels are the intercept, or an ordinal model's
        thresholds.
        """
        known = self.about.get("inference")
        if known is None:
            return None
        outputs, names = len(self.constants), self.preparation.outputs
        covariance = np.array(known["covariance"], dtype=np.float64)
        spare = len(covariance) - self.coefficients.size
        own: Array = self.constants[:, None] if spare == outputs else np.zeros((outputs, 0))
        extra = ["intercept"] * own.shape[1]
        if self.thresholds is not None:
            own, extra = self.thresholds[None], [f"threshold {k}" for k in range(spare)]
        values = np.hstack([self.coefficients, own]).ravel()
        labels = self.classes if outputs > 1 and self.classes else [str(k) for k in range(outputs)]
        names = [f"{c}: {n}" if outputs > 1 else n for c in labels[:outputs] for n in names + extra]
        freedom = float(known["freedom"])
        law = ("t", freedom) if freedom else ("z", np.inf)
        return Summary(names, values, covariance, *law, {"sums": 1})

    def scores(self, table: Table, rows: Array) -> Array:
        """The party's part of the scores of some rows, (rows, decision functions)."""
        return self.preparation.apply(table, rows) @ self.coefficients.T + self.constants


def save_model(own: LearnParty, model: PartyModel) -> Path:
    """Write the model; readable by its owner only."""
    document = {
        "format": FORMAT,
        "party": own.party.name,
        "study": own.study.digest.hex(),
        "run": own.study.name,
        "columns": model.preparation.outputs,
        "coefficients": model.coefficients.tolist(),
        "constants": model.constants.tolist(),
        "classes": list(model.classes),
        "preparation": model.preparation.as_list(),
    }
    file = own.party.state / MODEL
    create(file, json.dumps(document | model.about, indent=1).encode())
    return file


def load_model(own: LearnParty) -> PartyModel:
    """The model of this party in this study."""
    file = own.party.state / MODEL
    if not file.exists():
        raise Dual2Error(f"{file} is not there. First: dual2 learn fit {own.party.file}")
    found = read_json(file)
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise Refusal(f"{file} is no model of format {FORMAT}.", "its model cannot be read.")
    study, party = str(found.get("study")), str(found.get("party"))
    if (study, party) != (own.study.digest.hex(), own.party.name):
        raise Refusal(
            f"{file} is the model of {party} in another study ({study[:12]}…, run "
            f"{found.get('run')}); the study here is {own.study.digest.hex()[:12]}….",
            "its model is that of another study.",
        )
    try:
        return _read(found)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Refusal(
            f"{file} is damaged ({type(error).__name__}: {error}). Fit again: --force at all "
            "parties.",
            "its model cannot be read.",
        ) from error


def _read(found: dict[str, Any]) -> PartyModel:
    """The parts of a model, if they fit together."""
    constants = np.array(found["constants"], dtype=np.float64)
    coefficients = np.array(found["coefficients"], dtype=np.float64)
    preparation, classes = read_preparation(found["preparation"]), tuple(found["classes"])
    shape = (len(constants), len(preparation.outputs))
    if coefficients.size == 0:
        coefficients = coefficients.reshape(shape)
    if coefficients.shape != shape or constants.ndim != 1 or not len(constants):
        raise ValueError(f"coefficients of shape {coefficients.shape}; {shape} expected")
    if not (np.isfinite(coefficients).all() and np.isfinite(constants).all()):
        raise ValueError("a coefficient is no finite number")
    count = 1 + len(found.get("thresholds", [0.0])) if len(constants) == 1 else len(constants)
    if classes and len(classes) != count:
        raise ValueError(f"{len(classes)} classes and {len(constants)} decision functions")
    kept = {"format", "party", "study", "run", "columns", "coefficients", "constants", "classes"}
    about = {k: v for k, v in found.items() if k not in kept | {"preparation"}}
    return PartyModel(preparation, coefficients, constants, classes, about)
