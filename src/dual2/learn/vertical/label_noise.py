"""Randomised response that repeated use does not wear out, and a ledger of what was spent.

The noise of a row follows from a secret key that belongs to the label table, not to a run. A label
walks: at the times of a Poisson process it is replaced by a class drawn at random, and the labels
for ε are those at the time when e^-t = (e^ε - 1)/(e^ε + K - 1). So the label for a smaller ε is the
one for a larger ε with more noise (gradual release: Koufogiannis, Han & Pappas 2016): whoever sees
both learns no more than from the larger ε alone. A second threshold on one uniform number would not
do: rows whose answer changes between two ε would show their label.

Another list of classes, or a corrected label, begins another walk. What walks of one row have shown
adds up. The ledger has the largest ε of each walk; a study whose budget would be exceeded is
refused before anything leaves.
"""

import hashlib
import hmac
import json
import math
import os
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dual2.errors import Dual2Error, Refusal, StateError
from dual2.files import read_json
from dual2.learn.vertical.tables import word_of
from dual2.runtime.peers.folder import OWN, create, make_private
from dual2.runtime.peers.identity import read_private

Array = np.ndarray
KEY_BYTES, NAME_BYTES = 32, 16
_UNIFORM_BITS = 53
_BUDGET_SLACK = 1e-9
"""Relative rounding of a sum of ε that does not count as exceeding a budget."""
Walks = list[tuple[str, str]]
"""For each row its name in the ledger, and the name of the walk that its label takes."""


def keep_probability(epsilon: float, classes: int) -> float:
    """How likely a label is left as it is.

    Examples
    --------
    >>> round(keep_probability(2.0, 2), 4)
    0.8808
    """
    return 1.0 / (1.0 + (classes - 1) * math.exp(-epsilon))


def row_name(value: Any) -> str:
    """An id in one form, whichever file format or study it comes from.

    Examples
    --------
    >>> row_name("07 "), row_name(7), row_name(7.0), row_name("p7")
    ('7', '7', '7', 'p7')
    """
    text = unicodedata.normalize("NFKC", word_of(value)).strip()
    return str(int(text)) if text.isascii() and text.isdigit() else text


def walks_of(codes: Array, rows: Sequence[str], names: Sequence[str], key: bytes) -> Walks:
    """Names of rows and walks; nobody without the key can tell which rows they are."""
    found = []
    for code, row in zip(codes, rows, strict=True):
        walk = json.dumps([row, list(names), names[int(code)]]).encode()
        found.append((_name(key, b"row" + row.encode()), _name(key, b"walk" + walk)))
    return found


def _name(key: bytes, text: bytes) -> str:
    return hmac.digest(key, text, hashlib.sha256)[:NAME_BYTES].hex()


def randomise(
    codes: Array, rows: Sequence[str], names: Sequence[str], epsilon: float, key: bytes
) -> Array:
    """Randomised response; the same for the same row, label, classes, ε and key.

    Examples
    --------
    >>> codes, rows = np.zeros(4000, int), [str(k) for k in range(4000)]
    >>> found = randomise(codes, rows, ("no", "yes"), 1.0, b"secret")
    >>> bool(abs(np.mean(found == 0) - keep_probability(1.0, 2)) < 0.03)
    True
    """
    classes, answer = len(names), codes.copy()
    end = math.log1p(classes * math.exp(-epsilon) / -math.expm1(-epsilon))
    for j, (_, walk) in enumerate(walks_of(codes, rows, names, key)):
        seed, time, step = hmac.digest(key, walk.encode(), hashlib.sha256), 0.0, 0
        while True:
            drawn = hmac.digest(seed, step.to_bytes(4, "big"), hashlib.sha256)
            whole = int.from_bytes(drawn[:8], "big") >> (64 - _UNIFORM_BITS)
            time -= math.log((whole + 0.5) / 2.0**_UNIFORM_BITS)
            if time > end:
                break
            answer[j] = int.from_bytes(drawn[8:16], "big") % classes
            step += 1
    return answer


@dataclass(frozen=True)
class LabelKey:
    """The file with the secret of a label table, and the ledger beside it."""

    file: Path

    @property
    def ledger(self) -> Path:
        """What was spent, by row and walk."""
        return self.file.with_name(f"{self.file.name}.ledger")

    def read(self) -> bytes:
        """The secret, made once; refused if it was lost where labels have left already."""
        try:
            with self._locked():
                if not self.file.exists():
                    self._make()
                if not self.ledger.exists():
                    raise self._lost(self.ledger, "what was spent on each label")
        except (OSError, StateError) as error:
            raise Dual2Error(
                f"The noise key of the labels cannot be kept in {self.file}. Name another place in "
                f"table.label_key, always the same one for this table. ({error})"
            ) from error
        return read_private(self.file)

    def _make(self) -> None:
        if self.ledger.exists() and read_json(self.ledger):
            raise self._lost(self.file, "the noise that labels have had")
        create(self.ledger, b"{}")
        create(self.file, os.urandom(KEY_BYTES))

    def _lost(self, file: Path, what: str) -> Refusal:
        return Refusal(
            f"{file} is missing, which has {what}. New noise on the same labels would show them. "
            "Restore the file; it must stay with the table.",
            "the noise key of its labels is incomplete.",
        )

    def spend(self, walks: Walks, epsilon: float, budget: float, record: bool) -> None:
        """Refuse a release beyond the budget; ``record`` it, on the disk, before it is made."""
        with self._locked():
            ledger: dict[str, dict[str, float]] = read_json(self.ledger)
            largest = 0.0
            for row, walk in walks:
                spent = ledger.setdefault(row, {})
                spent[walk] = max(epsilon, spent.get(walk, 0.0))
                largest = max(largest, sum(spent.values()))
            if largest > budget * (1.0 + _BUDGET_SLACK):
                raise Refusal(
                    f"{self.ledger}: with this study some label would have been shown with a total "
                    f"of ε = {largest:g}; the study's budget is {budget:g} (labels.budget, by "
                    "default labels.epsilon). Labels, classes or ε have changed since earlier "
                    "studies. Agree on a larger budget, or leave those rows out.",
                    "its labels have been shown too often for the study's budget.",
                )
            if record:
                create(self.ledger, json.dumps(ledger).encode())

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One process at a time; studies on one table may run together."""
        import fcntl  # where there is none, all else of the package works

        make_private(self.file.parent)
        lock = self.file.with_name(f"{self.file.name}.lock")
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | OWN, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)
