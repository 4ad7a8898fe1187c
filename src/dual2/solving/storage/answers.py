"""Answers that ``dual2 solve --out`` wrote, read back."""

from collections.abc import Mapping
from typing import Any

from dual2.errors import ProblemError
from dual2.solving.result import Result


def read_result(document: Result | Mapping[str, Any], agents: int) -> Result:
    """A result of so many agents from what ``dual2 solve --out`` wrote; a Result as it is."""
    if not isinstance(document, Result):
        if "agent" in document:
            raise ProblemError(
                f"The document is the answer of agent {document['agent']} alone; expected that of "
                "all agents. Run dual2 solve with --gather and read the file that --out names."
            )
        try:
            document = Result.from_dict(document)
        except (KeyError, TypeError, ValueError) as error:
            raise ProblemError(
                f"The document is not a result of dual2 solve ({type(error).__name__}: {error}). "
                "Expected what --out wrote, read with json.load."
            ) from error
    if len(document.x) != agents:
        raise ProblemError(
            f"The result has answers of {len(document.x)} agents; expected {agents}. It is of "
            "another problem, or of one process among several."
        )
    return document
