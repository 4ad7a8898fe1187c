"""A run to make, and the setting in which it is made."""

import hashlib
import json
import re
import unicodedata
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from dual2.errors import Dual2Error
from dual2.network import Network
from dual2.problem import Problem

FORMAT = 1
"""Version of the stored files; part of every key, so that a store never mixes two of them."""

_GREEK = {"ρ": "rho", "κ": "kappa", "λ": "lambda", "η": "eta", "μ": "mu", "²": "2"}


@dataclass(frozen=True)
class Case:
    """One run to make: one cell of problems × networks × methods × seeds.

    Examples
    --------
    >>> case = Case("exp1", "iD2A, ρ = ρ*", "exp1", {}, {"method": "iD2A"})
    >>> case.key
    'exp1-id2a-rho-rho-e9933d3dcc'
    >>> case == Case(**case.as_dict())
    True
    """

    # runs of one group share a figure: "exp1", or the problem and network of a benchmark
    group: str
    label: str  # legend text, unique within the group and seed
    problem: str  # name of a problem builder, a key of dual2.bench.builders.BUILDERS
    problem_options: dict[str, Any] = field(default_factory=dict)  # the builder's arguments
    # arguments of dual2.solve; the reference comes from the builder
    solve: dict[str, Any] = field(default_factory=dict)
    seed: int = 0  # handed to the builder and to solve
    # whatever a reader of the store should know; tune holds the arguments of
    # dual2.solving.tuning.tune if parameters are to be searched for first
    notes: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("problem_options", "solve", "notes"):
            object.__setattr__(self, name, self._plain(name))

    def _plain(self, name: str) -> dict[str, Any]:
        """The dictionary as JSON gives it back (tuples become lists)."""
        try:
            return json.loads(json.dumps(getattr(self, name), allow_nan=False))
        except (TypeError, ValueError) as error:
            raise Dual2Error(
                f"{name} of the case {self.label!r} cannot be stored: {error}. Expected finite "
                "numbers, text, truth values, lists and tables of them."
            ) from error

    def as_dict(self) -> dict[str, Any]:
        """The fields by name."""
        return asdict(self)

    @property
    def key(self) -> str:
        """Stable file name: group and label for a person, a hash of everything for certainty."""
        everything = json.dumps([FORMAT, self.as_dict()], sort_keys=True)
        digest = hashlib.blake2b(everything.encode(), digest_size=5).hexdigest()
        return f"{slug(f'{self.group} {self.label}')[:60].rstrip('-')}-{digest}"


def slug(text: str) -> str:
    """Letters, digits and hyphens that remind of a text.

    Examples
    --------
    >>> slug("exp2-active: MiD2A, ρ = 0")
    'exp2-active-mid2a-rho-0'
    """
    spelled = "".join(_GREEK.get(letter, letter) for letter in text)
    plain = unicodedata.normalize("NFKD", spelled).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")


@dataclass(frozen=True, eq=False)
class Setting:
    """What a problem builder returns."""

    # problem, network: what to solve
    problem: Problem
    network: Network
    reference: list[np.ndarray] | None = None  # x*, if known; traces then have a column gap
    # numbers and words worth showing beside the results: n, p, dims, edges, kappa_C, a hash of the
    # data, the KKT residual of the reference, …
    facts: dict[str, Any] = field(default_factory=dict)
