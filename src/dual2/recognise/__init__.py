"""Models of other packages, recognised and turned into problems."""

from dual2.recognise.from_cvxpy import CvxpyProblem, from_cvxpy

__all__ = ["CvxpyProblem", "from_cvxpy"]
