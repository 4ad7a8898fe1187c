"""Names of parties, studies and sets of predictions: they become names of files."""

import re

from dual2.errors import Dual2Error

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def demand_name(text: str, where: str) -> str:
    """The text, if it may be a name; an error otherwise.

    Examples
    --------
    >>> demand_name("lab-2", "study.toml: run")
    'lab-2'
    >>> demand_name("../lab", "study.toml: run")
    Traceback (most recent call last):
    dual2.errors.Dual2Error: study.toml: run is '../lab'; expected letters, digits, - _ and dots.
    """
    if not NAME.fullmatch(text):
        raise Dual2Error(f"{where} is {text!r}; expected letters, digits, - _ and dots.")
    return text
