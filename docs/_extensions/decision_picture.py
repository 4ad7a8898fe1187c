"""Which method when, as a picture: questions down the left, the method at the right of each."""

from html import escape

FOLDER = "methods"
QUESTIONS = (
    (
        ("Do you want to compare", "methods?"),
        ("All of them", "dual2 bench CONFIG"),
        "../bench.html",
        "yes",
    ),
    (
        ("May sums over the whole", "network travel?"),
        ("iD2A", "MiD2A if κ_C is large"),
        "id2a.html",
        "no",
    ),
    (
        ("Does every function have", "second derivatives?", "(all of the library have)"),
        ("L-BFGS", "over sums of vectors"),
        "l-bfgs.html",
        "no",
    ),
    (
        ("Some hundred coupling rows", "or fewer?"),
        ("Newton, primal mode", "sums of p-vectors; f quadratic,", "g and h by coordinate"),
        "newton.html",
        "no",
    ),
    (
        ("Is every f_i strongly", "convex?"),
        ("interior-point", "linear and quadratic programs,", "l1, cones, polyhedra"),
        "interior-point.html",
        "no",
    ),
)
LAST = (("Newton, dual mode", "tens of exchanges"), "newton.html")
"""What remains when no answer has led to the right."""

WIDTH, LEFT, RIGHT, ROW, GAP = 470, 205, 205, 74, 34
STYLE = (
    ".choice{max-width:36rem;width:100%;height:auto;font:14px sans-serif}"
    ".choice text{fill:var(--color-foreground-primary);text-anchor:middle}"
    ".choice rect{fill:var(--color-background-secondary);stroke:var(--color-foreground-muted)}"
    ".choice a rect{stroke:var(--color-brand-primary);stroke-width:2}"
    ".choice path{stroke:var(--color-foreground-muted);fill:none;stroke-width:1.5}"
    ".choice a,.choice a text{text-decoration:none}"
    ".choice .name{font-weight:bold;fill:var(--color-brand-content)}"
    ".choice .small{font-size:12px}"
)


def picture() -> str:
    """The picture as SVG in the colours of the page, light or dark."""
    height = (len(QUESTIONS) + 1) * (ROW + GAP)
    parts = [
        f'<svg class="choice" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="Which method when"><style>{STYLE}</style>'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
        'markerHeight="8" orient="auto"><path d="M0,0L8,4L0,8"/></marker></defs>'
    ]
    for k, (question, answer, link, word) in enumerate(QUESTIONS):
        top, other = k * (ROW + GAP) + 2, "no" if word == "yes" else "yes"
        parts += [_box(2, top, LEFT, question), _arrow(2 + LEFT, top + ROW / 2, 54, 0, word)]
        parts.append(_answer(WIDTH - RIGHT - 2, top, RIGHT, answer, link))
        parts.append(_arrow(2 + LEFT / 2, top + ROW, 0, GAP, other))
    parts.append(_answer(2, height - ROW - GAP + 2, LEFT, *LAST))
    return "".join([*parts, "</svg>"])


def _box(x: float, y: float, width: float, lines: tuple[str, ...], named: bool = False) -> str:
    first = y + ROW / 2 + 5 - 8.5 * (len(lines) - 1)
    texts = [
        f'<text x="{x + width / 2:g}" y="{first + 17 * k:g}" '
        f'class="{("name" if k == 0 else "small") if named else ""}">{escape(line)}</text>'
        for k, line in enumerate(lines)
    ]
    box = f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{ROW}" rx="7"/>'
    return box + "".join(texts)


def _answer(x: float, y: float, width: float, lines: tuple[str, ...], link: str) -> str:
    return f'<a href="methods/{link}">{_box(x, y, width, lines, named=True)}</a>'


def _arrow(x: float, y: float, dx: float, dy: float, word: str) -> str:
    place = (x + dx / 2, y - 6) if dx else (x + 20, y + dy / 2 + 4)
    return (
        f'<path d="M{x:g},{y:g}l{dx:g},{dy:g}" marker-end="url(#tip)"/>'
        f'<text class="small" x="{place[0]:g}" y="{place[1]:g}">{word}</text>'
    )
