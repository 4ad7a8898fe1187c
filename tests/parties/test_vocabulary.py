"""Parties speak the field's words: names of earlier versions do not come back."""

import re
from pathlib import Path

import dual2

OLD_WORDS = re.compile(
    r"\b(Hub|Turns|Carrier|Visitor|Welcome|Strangers|Sparing|Meaning|Elsewhere|Leaving|_lives"
    r"|_converse|STOPPED = \"had|KEEP|MOST_\w+|class Link|journal\.say)\b"
)


def test_old_words_are_gone():
    source = Path(dual2.__file__).parent
    folders = ("runtime/peers", "processes", "learn/vertical", "parties")
    files = [file for folder in folders for file in (source / folder).rglob("*.py")]
    assert len(files) > 40
    found = {
        f"{file.name}: {hit[0]}" for file in files for hit in OLD_WORDS.finditer(file.read_text())
    }
    assert not found
