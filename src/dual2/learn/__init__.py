"""Vertical federated learning as scikit-learn estimators.

Several parties hold different columns about the same rows. They fit one linear model together:
each keeps its columns and its coefficients, dual vectors go to neighbours in a network.
"""

try:
    import sklearn as _sklearn  # noqa: F401
except ImportError as error:
    raise ImportError("dual2.learn needs scikit-learn: pip install 'dual2[learn]'.") from error

from dual2.learn.classification import VerticalLinearSVC, VerticalLogisticRegression
from dual2.learn.inference import Summary
from dual2.learn.model_figures import plot_calibration, plot_coefficients
from dual2.learn.newton_models import VerticalGammaRegressor, VerticalTweedieRegressor
from dual2.learn.ordinal import VerticalOrdinalRegression
from dual2.learn.path import Models, Path, enet_path, lasso_path, regularisation_path
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
from dual2.learn.vertical.party import Party
from dual2.learn.vertical_model import VerticalModel

__all__ = [
    "Models",
    "Party",
    "Path",
    "Summary",
    "VerticalCoxRegression",
    "VerticalElasticNet",
    "VerticalGammaRegressor",
    "VerticalHuberRegressor",
    "VerticalLasso",
    "VerticalLinearSVC",
    "VerticalLogisticRegression",
    "VerticalModel",
    "VerticalNonnegativeRegression",
    "VerticalOrdinalRegression",
    "VerticalPoissonRegressor",
    "VerticalQuantileRegressor",
    "VerticalRidge",
    "VerticalTweedieRegressor",
    "enet_path",
    "lasso_path",
    "plot_calibration",
    "plot_coefficients",
    "regularisation_path",
]
