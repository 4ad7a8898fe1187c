"""Models of other programs as problems of owners: PyPSA, linopy; MPS, QPS, LP and .mat files."""

from dual2.models.linopy_models import LinopyProblem, from_linopy
from dual2.models.lp_file import read_lp
from dual2.models.mat_file import read_mat
from dual2.models.model import Model
from dual2.models.model_answer import ModelAnswer
from dual2.models.mps import read_mps
from dual2.models.owners import read_owners
from dual2.models.partition import OwnedModel
from dual2.models.pypsa_networks import PypsaProblem, from_pypsa
from dual2.models.reading_models import read_model

__all__ = [
    "LinopyProblem",
    "Model",
    "ModelAnswer",
    "OwnedModel",
    "PypsaProblem",
    "from_linopy",
    "from_pypsa",
    "read_lp",
    "read_mat",
    "read_model",
    "read_mps",
    "read_owners",
]
