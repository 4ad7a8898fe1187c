"""Models of other programs as problems: MPS, QPS, LP and .mat files, with owners."""

from dual2.models.answer import ModelAnswer
from dual2.models.lp_file import read_lp
from dual2.models.mat_file import read_mat
from dual2.models.model import Model
from dual2.models.mps import read_mps
from dual2.models.owners import read_owners
from dual2.models.partition import OwnedModel
from dual2.models.reading_models import read_model

__all__ = [
    "Model",
    "ModelAnswer",
    "OwnedModel",
    "read_lp",
    "read_mat",
    "read_model",
    "read_mps",
    "read_owners",
]
