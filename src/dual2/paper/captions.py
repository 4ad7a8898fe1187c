"""Words about the experiments, read from ``captions.toml``."""

import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import Any


@dataclass(frozen=True)
class Constant:
    """A number that a caption of the paper prints."""

    name: str  # its symbol
    paper: float  # its value there
    fact: str  # the fact of the stored runs that it is compared with
    remark: str = ""  # what to know about it
    chosen: bool = False  # data or network were chosen to meet it: meeting it proves nothing


@dataclass(frozen=True)
class About:
    """Words about one group of runs."""

    title: str
    words: str  # paragraphs, parted by blank lines
    formula: str  # the problem
    constants: tuple[Constant, ...]  # the caption's numbers


def read_toml(name: str) -> dict[str, Any]:
    """A data file of this package."""
    source = resources.files("dual2.paper").joinpath(name)
    return tomllib.loads(source.read_text(encoding="utf-8"))


def _about(group: str) -> About:
    """Words about a group; a variant has those of its experiment but for a few."""
    found = _FILE["groups"][group.partition("-")[0]] | _FILE["groups"][group]
    sizes = [Constant(name, value, name) for name, value in found["sizes"].items()]
    constants = (*sizes, *(Constant(**entry) for entry in found["constants"]))
    words = f"{found['words']}\n\n{found['more']}"
    return About(found["title"], words, found["formula"], constants)


_FILE = read_toml("captions.toml")
SOURCE: str = _FILE["source"]
"""The paper."""
WORDS: dict[str, str] = _FILE["words"]
"""What words on the report's page mean."""
ABOUT = {group: _about(group) for group in _FILE["groups"]}
"""By group of runs."""
