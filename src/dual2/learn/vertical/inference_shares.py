"""Standard errors between parties: each gets the covariance of its own coefficients.

The holder of the labels has the covariance of the coefficients v of the rotated columns. It tells
the others G, that of c = L⁻ᵀv, in one sum; party i has w_i = Z_i c and the covariance Z_i G Z_iᵀ.
G depends on the labels and on the columns of all, which is why a study must ask for it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dual2.learn.inference import Summary
from dual2.learn.vertical.party_file import LearnParty
from dual2.runtime.peers.parties import Parties

Array = np.ndarray


@dataclass(frozen=True)
class Inference:
    """Covariance of some coefficients, and the law of their statistics.

    Coefficients are those of the first decision function, then those of the next one.
    """

    covariance: Array
    freedom: float  # degrees of freedom of t values; 0 for z values
    mixed: Array | None = None  # at the holder: places of the mixed columns' coefficients
    own: Array | None = None  # at the holder: places of its own coefficients and constants

    def of_holder(self, count: int) -> "Inference":
        """The part of the holder's own coefficients and constants."""
        assert self.own is not None, "known at the holder"
        return Inference(self.covariance[np.ix_(self.own, self.own)], self.freedom)

    def through(self, Z: Array, outputs: int) -> "Inference":
        """The covariance of a party's own coefficients, from that of c."""
        step = np.kron(np.eye(outputs), Z)
        return Inference(step @ self.covariance @ step.T, self.freedom)

    def as_dict(self) -> dict[str, Any]:
        """For the model's file."""
        return {"covariance": self.covariance.tolist(), "freedom": self.freedom}


def from_summary(found: Summary, outputs: int, count: int) -> Inference:
    """The holder's summary of all coefficients: mixed columns first, then its own columns."""
    each = len(found.coef) // outputs if outputs > 1 else len(found.coef)
    places = np.arange(len(found.coef)).reshape(-1, each) if outputs > 1 else None
    rows = places if places is not None else np.arange(each)[None]
    freedom = float(found.freedom) if found.kind == "t" else 0.0
    return Inference(found.covariance, freedom, rows[:, :count].ravel(), rows[:, count:].ravel())


def share_inference(
    own: LearnParty, transport: Parties, known: Inference | None, back: Array | None
) -> Inference:
    """The covariance of c at every party; ``known`` and ``back`` are the holder's."""
    message = np.zeros(0)
    if known is not None and known.mixed is not None and back is not None:
        part = known.covariance[np.ix_(known.mixed, known.mixed)]
        outputs = len(part) // max(len(back), 1)
        step = np.kron(np.eye(outputs), back)
        whole = step @ part @ step.T
        message = np.append(known.freedom, whole[np.tril_indices(len(whole))])
    size = transport.sum(np.array([[float(message.size)]]), own.study.network)
    mine = message if message.size else np.zeros(int(size[0]))
    told = transport.sum(mine[None], own.study.network)
    side = int((np.sqrt(8.0 * (len(told) - 1) + 1.0) - 1.0) / 2.0 + 0.5)
    whole = np.zeros((side, side))
    whole[np.tril_indices(side)] = told[1:]
    return Inference(whole + np.tril(whole, -1).T, float(told[0]))
