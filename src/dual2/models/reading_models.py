"""``read_model``: a model's file, by its name."""

from pathlib import Path

from dual2.errors import ProblemError
from dual2.models.lp_file import read_lp
from dual2.models.mat_file import read_mat
from dual2.models.model import Model
from dual2.models.mps import read_mps

SUFFIXES = (".mps", ".qps", ".sif", ".lp", ".mat")


def read_model(path: str | Path, *, relax: bool = False) -> Model:
    """Read an MPS, QPS, LP or .mat file; text may be packed by gzip (.gz).

    Parameters
    ----------
    path : str or Path
        The file; its name says which format it has.
    relax : bool
        Read variables that must be whole as continuous ones, instead of refusing the file.

    Raises
    ------
    ProblemError
        Names the line of the file.
    """
    name = Path(path).name.lower().removesuffix(".gz")
    if name.endswith((".mps", ".qps", ".sif")):
        return read_mps(path, relax=relax)
    if name.endswith(".lp"):
        return read_lp(path, relax=relax)
    if name.endswith(".mat"):
        return read_mat(path)
    raise ProblemError(
        f"{Path(path).name} has none of the endings {', '.join(SUFFIXES)} (and .gz). "
        "Call read_mps, read_lp or read_mat to say which format it has."
    )
