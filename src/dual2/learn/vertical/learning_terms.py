"""What a learning study says about learning, as values that were read and checked."""

from dataclasses import dataclass
from typing import Any

from dual2.learn.classification import (
    VerticalClassifier,
    VerticalLinearSVC,
    VerticalLogisticRegression,
)
from dual2.learn.newton_models import VerticalGammaRegressor, VerticalTweedieRegressor
from dual2.learn.ordinal import VerticalOrdinalRegression
from dual2.learn.regression import (
    VerticalElasticNet,
    VerticalLasso,
    VerticalNonnegativeRegression,
    VerticalRidge,
)
from dual2.learn.robust import (
    VerticalHuberRegressor,
    VerticalPoissonRegressor,
    VerticalQuantileRegressor,
)
from dual2.learn.survival import VerticalCoxRegression
from dual2.learn.vertical_model import VerticalModel

MODELS: dict[str, type[VerticalModel]] = {
    kind.__name__.removeprefix("Vertical"): kind
    for kind in (
        VerticalCoxRegression,
        VerticalElasticNet,
        VerticalGammaRegressor,
        VerticalHuberRegressor,
        VerticalLasso,
        VerticalLinearSVC,
        VerticalLogisticRegression,
        VerticalNonnegativeRegression,
        VerticalOrdinalRegression,
        VerticalPoissonRegressor,
        VerticalQuantileRegressor,
        VerticalRidge,
        VerticalTweedieRegressor,
    )
}
"""Models of a study, by the names of the estimators without ``Vertical``."""
COX, ORDINAL = "CoxRegression", "OrdinalRegression"
POWERS = {"PoissonRegressor": 1.0, "GammaRegressor": 2.0, "TweedieRegressor": None}
"""Models of exp(score), with the power of the mean that the variance grows like."""
PSI, HASHES, GIVEN = "psi", "keyed hashes", "given"
POLICIES = (PSI, HASHES, GIVEN)
TEXT, INTEGER = "text", "integer"


@dataclass(frozen=True)
class RowPolicy:
    """How rows are matched, between bounds on what a list of guesses could find.

    ``maximum`` and ``ratio`` bound another party's set, absolutely and relative to one's own;
    ``attempts`` bounds how often the same ids are matched.
    """

    policy: str = PSI
    id: str = "id"
    type: str = TEXT
    minimum: int = 1
    maximum: int = 1_000_000
    ratio: float = 10.0
    attempts: int = 20


@dataclass(frozen=True)
class Search:
    """Values of one parameter that cross-validation chooses from."""

    parameter: str
    values: tuple[float, ...]
    folds: int = 5
    seed: int = 0


@dataclass(frozen=True)
class EvaluationPlan:
    """What the holder computes about the model's quality, beyond the training rows.

    ``held_out`` is a share of rows, ``folds`` a number of parts, of which each is held out once;
    ``standard_errors`` says whether all parties get those of their coefficients.
    """

    held_out: float = 0.0
    folds: int = 0
    seed: int = 0
    standard_errors: bool = False


@dataclass(frozen=True)
class Learning:
    """The part of a study about learning; parties are numbers.

    ``private`` says whether labels are to stay at their holder. ``epsilon`` is that of the labels'
    randomised response, ``budget`` the most that a label may have been shown with, earlier studies
    included; ``accepted`` says whether all accept what is shown of labels otherwise. ``automatic``
    says whether the study names no method.
    """

    model: str
    options: dict[str, Any]
    standardize: bool
    tol: float
    rows: RowPolicy
    holder: int
    epsilon: float | None
    accepted: bool
    receivers: tuple[int, ...]
    search: Search | None = None
    budget: float | None = None
    private: bool = False
    automatic: bool = True
    evaluation: EvaluationPlan = EvaluationPlan()

    @property
    def mixes(self) -> bool:
        """Whether the holder trains alone on mixed columns: every penalty is a plain square."""
        values: tuple[Any, ...] = self.search.values if self.search else (None,)
        changes = [{self.search.parameter: v} if self.search else {} for v in values]
        return self.automatic and not any(self.estimator(**c)._penalty().l1 for c in changes)

    @property
    def classifier(self) -> bool:
        """Whether labels are classes."""
        return self.model == ORDINAL or issubclass(MODELS[self.model], VerticalClassifier)

    def estimator(self, **changes: Any) -> VerticalModel:
        """The estimator that says what loss and penalty are."""
        return MODELS[self.model](**self.options | changes, tol=self.tol)
