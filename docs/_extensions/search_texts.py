"""Texts for the results of a search, as a script: a page on a disk may not fetch another one."""

import json
from collections.abc import Iterator
from pathlib import Path

from docutils import nodes
from sphinx.addnodes import desc_signature

FILE = "_static/search_texts.js"
SKIPPED = (nodes.comment, nodes.math, nodes.math_block, nodes.raw, nodes.substitution_definition)
"""What has no words of its own; formulas would be raw LaTeX."""
ELSEWHERE = (nodes.section, nodes.title, desc_signature)
"""What is shown by results of its own, or as their heading."""


def text_of(section: nodes.Element) -> str:
    """Words of a section, without its title and the sections within it.

    Examples
    --------
    >>> part = nodes.section("", nodes.title(text="A"), nodes.paragraph(text="some words"))
    >>> part += nodes.section("", nodes.title(text="B"), nodes.paragraph(text="other words"))
    >>> text_of(part)
    'some words'
    """
    return " ".join("".join(_pieces(section)).split())


def _pieces(node: nodes.Element) -> Iterator[str]:
    for child in node.children:
        if isinstance(child, nodes.Text):
            yield child.astext()
        elif isinstance(child, SKIPPED):
            yield " … "
        elif isinstance(child, nodes.Element) and not isinstance(child, ELSEWHERE):
            yield "" if isinstance(child, nodes.Inline) else " "
            yield from _pieces(child)


def sections(doctree: nodes.document) -> dict[str, str]:
    """Text of each section by its anchor, in the order of the page."""
    found = {part["ids"][0]: text_of(part) for part in doctree.findall(nodes.section)}
    return {anchor: text for anchor, text in found.items() if text}


def write_texts(app, error) -> None:
    """Write the texts of all pages into the built site."""
    if error is None and app.builder.format == "html":
        pages = {name: sections(app.env.get_doctree(name)) for name in sorted(app.env.all_docs)}
        script = f"window.searchTexts = {json.dumps(pages, ensure_ascii=False)};\n"
        (Path(app.outdir) / FILE).write_text(script, encoding="utf-8")


def setup(app) -> dict:
    """Called by Sphinx."""
    app.connect("build-finished", write_texts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
