"""Every method has its page: formulas, a guarantee, sources that are in the bibliography."""

import re
from importlib import import_module
from pathlib import Path

import pytest

from dual2.methods import METHODS
from dual2.methods.guide import GUIDES

BIBLIOGRAPHY = Path(__file__).resolve().parents[2] / "docs" / "references.bib"


def test_every_method_has_a_guide_and_no_other():
    assert list(GUIDES) == [name for name in METHODS if name in GUIDES]
    assert set(GUIDES) == set(METHODS)


@pytest.mark.parametrize("name", GUIDES)
def test_a_guide_leads_somewhere(name):
    guide = GUIDES[name]
    text = import_module(f"dual2.methods.{guide.module}").__doc__ or ""
    assert len(text) > 200
    assert guide.guarantee.endswith(".") and guide.when.endswith(".")
    known = re.findall(r"^@\w+\{(\w+),", BIBLIOGRAPHY.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(guide.sources) <= set(known) and len(known) == len(set(known))
