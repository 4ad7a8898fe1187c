"""What is minimised: convex functions with value, gradient, prox, conjugate, mu and L.

A function serves as f (smooth, local), g (with a prox, local) or h (of the coupling) wherever it
has what the role needs. Classes say the formula and compute with NumPy; ``lowering`` and
``kernels`` hold the same for compiled loops.
"""

from dual2.functions.barriers import Entropy, NegativeLog
from dual2.functions.base import Function
from dual2.functions.calculus import Affined, Conjugate
from dual2.functions.cone import IndicatorSecondOrderCone
from dual2.functions.glm import LogisticLoss, PoissonLoss
from dual2.functions.largest import (
    IndicatorCappedSimplex,
    IndicatorL1Ball,
    LInfNorm,
    Max,
    SumLargest,
)
from dual2.functions.logistic_regression import LogisticRegression
from dual2.functions.losses import (
    AbsoluteLoss,
    HingeLoss,
    NonnegativeSquaredLoss,
    QuantileLoss,
    SquaredLoss,
)
from dual2.functions.norms_and_sets import (
    IndicatorAffine,
    IndicatorBall,
    IndicatorHalfspace,
    IndicatorSimplex,
    L2Norm,
)
from dual2.functions.piecewise import PiecewiseQuadratic
from dual2.functions.piecewise_linear import PiecewiseLinear
from dual2.functions.polyhedron import IndicatorPolyhedron
from dual2.functions.quadratic import LeastSquares, Quadratic
from dual2.functions.separable import (
    ElasticNet,
    IndicatorAtMost,
    IndicatorBox,
    IndicatorNonnegative,
    IndicatorPoint,
    L1Norm,
    SquaredNorm,
    Zero,
)
from dual2.functions.smooth_losses import HuberLoss, HuberNormLoss, SquaredHingeLoss
from dual2.functions.softmax import SoftmaxLoss
from dual2.functions.stacked import Stacked
from dual2.functions.user import ConjugateSmooth, Proximable, Smooth, as_function

__all__ = [
    "AbsoluteLoss",
    "Affined",
    "Conjugate",
    "ConjugateSmooth",
    "ElasticNet",
    "Entropy",
    "Function",
    "HingeLoss",
    "HuberLoss",
    "HuberNormLoss",
    "IndicatorAffine",
    "IndicatorAtMost",
    "IndicatorBall",
    "IndicatorBox",
    "IndicatorCappedSimplex",
    "IndicatorHalfspace",
    "IndicatorL1Ball",
    "IndicatorNonnegative",
    "IndicatorPoint",
    "IndicatorPolyhedron",
    "IndicatorSecondOrderCone",
    "IndicatorSimplex",
    "L1Norm",
    "L2Norm",
    "LInfNorm",
    "LeastSquares",
    "LogisticLoss",
    "LogisticRegression",
    "Max",
    "NegativeLog",
    "NonnegativeSquaredLoss",
    "PiecewiseLinear",
    "PiecewiseQuadratic",
    "PoissonLoss",
    "Proximable",
    "Quadratic",
    "QuantileLoss",
    "Smooth",
    "SoftmaxLoss",
    "SquaredHingeLoss",
    "SquaredLoss",
    "SquaredNorm",
    "Stacked",
    "SumLargest",
    "Zero",
    "as_function",
]
