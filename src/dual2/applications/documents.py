"""Answers that ``dual2 solve --out`` wrote, read back."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from dual2.errors import ProblemError
from dual2.result import Certificate, Counts, Result, Status


def read_result(document: Result | Mapping[str, Any], agents: int) -> Result:
    """A result from its JSON document, which has the agents' mean price only; a Result as it is.

    Parameters
    ----------
    document : mapping or Result
        What ``dual2 solve --out`` wrote (over MPI with ``--gather``).
    agents : int
        How many agents it should have.
    """
    if not isinstance(document, Result):
        document = _from_mapping(document)
    if len(document.x) != agents:
        raise ProblemError(
            f"The result has answers of {len(document.x)} agents; expected {agents}. It is of "
            "another problem, or of one process among several."
        )
    return document


def _from_mapping(document: Mapping[str, Any]) -> Result:
    if "agent" in document:
        raise ProblemError(
            f"The document is the answer of agent {document['agent']} alone; expected that of all "
            "agents. Run dual2 solve with --gather and read the file that --out names."
        )
    try:
        dual = np.array(document["dual"], dtype=float)
        x = [np.array(part, dtype=float) for part in document["x"]]
        return Result(
            x=x, y=np.array(document["y"], dtype=float), dual=dual,
            duals=np.tile(dual, (len(x), 1)), objective=document["objective"],
            status=Status(document["status"]), counts=Counts(**document["counts"]),
            certificate=Certificate(**document["certificate"]), trace={}, parameters={},
            owned=list(range(len(x))),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError) as error:
        raise ProblemError(
            f"The document is not a result of dual2 solve ({type(error).__name__}: {error}). "
            "Expected what --out wrote, read with json.load."
        ) from error
