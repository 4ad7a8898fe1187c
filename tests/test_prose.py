"""The documents are written in short sentences and in the words that readers know."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs/tutorials").glob("*.md")),
]
TEXTS = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in DOCUMENTS}
MAX_WORDS = 40
"""A sentence with more words than this is long."""
MAX_LONG_SHARE = 0.03
"""Largest share of long sentences."""

FORBIDDEN = (
    r"\banew\b",
    r"\bfor ever\b",
    r"\bas the machine is\b",
    r"\bcounts as its name\b",
    r"\bbeside\b",
    r"(?:^|[.:;]\s+)Who(?:ever)? (?!\w+[^.]*\?)",
    r"\b(?:agent|method|run|solver|process|machine|program)s? (?:feel|hear|tell|wish)(?:e?s)?\b",
    r"\bnobody feels\b",
)
"""Phrases that are not plain English here, as regular expressions."""


def paragraphs(text: str) -> Iterator[str]:
    """Paragraphs and list items of a page, without code, tables, headings and HTML tags.

    Examples
    --------
    >>> list(paragraphs("# Title\\n\\nOne line.\\n\\n    code\\n\\n- item\\n- two\\n\\n| a | b |"))
    ['One line.', 'item', 'two']
    """
    text = re.sub(r"^(```+|:::+).*?^\1\s*$", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"<[^<>\n]+>", " ", text)
    for block in re.split(r"\n[ \t]*\n", text):
        if re.match(r"\n*    (?![-*\d])", block):
            continue
        lines = [line for line in block.splitlines() if not line.lstrip().startswith(("|", "#"))]
        for item in re.split(r"(?:^|\n)\s*(?:[-*]|\d+\.)\s+", "\n".join(lines)):
            if item.strip():
                yield " ".join(item.split())


def sentences(text: str) -> list[str]:
    """Sentences of more than three words.

    Examples
    --------
    >>> sentences("Agents send sums. Why? A parent sees\\nthe sum of its subtree.")
    ['A parent sees the sum of its subtree.']
    """
    found = [s for part in paragraphs(text) for s in re.split(r"(?<=[.!?])\s+", part)]
    return [sentence for sentence in found if len(sentence.split()) > 3]


def forbidden(text: str) -> list[str]:
    """Phrases of a text that plain English does without; names of options are no text.

    Examples
    --------
    >>> forbidden("Draw it anew. Use `--beside iD2A`. Who must not show this says so.")
    ['anew', '. Who ']
    """
    prose = re.sub(r"`[^`]*`", "", " ".join(text.split()))
    return [hit.group() for rule in FORBIDDEN for hit in re.finditer(rule, prose)]


def test_few_sentences_are_long():
    all_of_them = [(name, s) for name, text in TEXTS.items() for s in sentences(text)]
    long = [(name, s) for name, s in all_of_them if len(s.split()) > MAX_WORDS]
    assert len(all_of_them) > 1000
    assert len(long) < MAX_LONG_SHARE * len(all_of_them), "\n".join(f"{n}: {s}" for n, s in long)


@pytest.mark.parametrize("name", TEXTS)
def test_no_forbidden_phrase(name):
    assert not forbidden(TEXTS[name]), name
