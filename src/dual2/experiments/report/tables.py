"""Tables of the report as HTML; every text from outside is escaped here."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING, Any

from dual2.experiments.costs import AXES, TARGETS, rows_at_gap, spent
from dual2.experiments.store import StoredRun
from dual2.experiments.styles import labels, remarks, styles
from dual2.experiments.verdicts import VERDICTS
from dual2.plotting import Style

if TYPE_CHECKING:
    from dual2.experiments.catalogue import Constant
    from dual2.experiments.claims import Claim

BADGES = dict(zip(VERDICTS, ("yes", "no", "open"), strict=True))
"""Class of each verdict's badge."""

SHORT = 60
"""Characters of a measurement that is shown at once; a longer one unfolds."""

_LETTER = "[A-Za-z0-9Α-Ωα-ω]"
SUBSCRIPT = re.compile(
    f"(?<!{_LETTER})(?<!_)({_LETTER}|prox)_"
    f"(?:({_LETTER}{{1,3}}(?:&#x27;{_LETTER}?)?)(?!{_LETTER}|_)|{{([^{{}}]*)}})"
)
"""A letter, an underscore and an index: short, or in braces."""

POWER = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)e([+-]\d+)\b")
"""A number with an exponent."""

RAISED = "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"

SWATCHES = {"solid": "", "dashed": "7 4", "dashdot": "8 3 2 3", "dotted": "2 3"}
"""Strokes of the kinds of lines, in the picture beside a name."""


GLYPHS = dict(zip("*s^vDoPXh<>pd8H", "★■▲▼◆●✚✖⬢◀▶⬟♦⬣⬡", strict=True))
"""Markers of matplotlib as characters."""


def number(value: Any) -> str:
    """A value as a person reads it.

    Examples
    --------
    >>> number(25274.14236908820), number(3_000_000), number(1.5e-9), number(None), number([1, 2])
    ('25\u202f274.1', '3\u202f000\u202f000', '1.5·10⁻⁹', '–', '1, 2')
    """
    if value is None or value == "":
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer() and value < 1e9):
        return f"{int(value):,}".replace(",", "\u202f")
    if isinstance(value, float) and math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if isinstance(value, float):
        digits, _, exponent = f"{value:,.6g}".replace(",", "\u202f").partition("e")
        return f"{digits}·{power(int(exponent))}" if exponent else digits
    if isinstance(value, Mapping):
        return "; ".join(f"{name}: {number(member)}" for name, member in value.items())
    if isinstance(value, list | tuple):
        shown = ", ".join(number(member) for member in value[:12])
        return shown + (f", … ({len(value)} in all)" if len(value) > 12 else "")
    return str(value)


def mathematics(text: str) -> str:
    """Escaped text with subscripts (κ_C, prox_g) and powers of ten.

    Examples
    --------
    >>> mathematics("8.24e+15, gap ≤ 1e-08")
    '8.24·10¹⁵, gap ≤ 10⁻⁸'
    >>> mathematics("κ_Aρ < 9, x_iᵀP_i, μ_{h*}, max_rounds")
    'κ<sub>Aρ</sub> &lt; 9, x<sub>i</sub>ᵀP<sub>i</sub>, μ<sub>h*</sub>, max_rounds'
    """
    return SUBSCRIPT.sub(r"\1<sub>\2\3</sub>", POWER.sub(_power, escape(text)))


def _power(found: re.Match[str]) -> str:
    tens = power(int(found[2]))
    return tens if found[1] == "1" else f"{found[1]}·{tens}"


def power(exponent: int) -> str:
    """A power of ten as one writes it.

    Examples
    --------
    >>> power(-8)
    '10⁻⁸'
    """
    return "10" + str(exponent).translate(str.maketrans("-0123456789", RAISED))


def table(head: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "") -> str:
    """A table in a box that scrolls on its own; cells are HTML already."""
    top = "".join(f"<th scope=col>{escape(name)}</th>" for name in head)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return (
        f'<div class="scroll" tabindex="0"><table class="{kind}"><thead><tr>{top}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def pairs(items: Mapping[str, Any], *head: str) -> str:
    """Names and values, two columns."""
    rows = ([mathematics(name), mathematics(number(value))] for name, value in items.items())
    return table(head or ("name", "value"), rows, "pairs")


def swatch(style: Style) -> str:
    """A short piece of a curve's line with its marker."""
    dash, glyph = SWATCHES[style.dash], GLYPHS.get(style.marker, "")
    return (
        f'<svg class="swatch" viewBox="0 0 34 10" aria-hidden="true"><line x1="1" y1="5" x2="33" '
        f'y2="5" stroke="{style.colour}" stroke-width="{style.width:g}"'
        + (f' stroke-dasharray="{dash}"' if dash else "")
        + "/>"
        + (f'<text x="17" y="8.2" fill="{style.colour}">{glyph}</text>' if glyph else "")
        + "</svg>"
    )


def claims_table(claims: Sequence["Claim"]) -> str:
    """Each claim with its verdict, why, and what was measured; a heading for each place."""
    parts = []
    for where, members in groupby(claims, key=lambda claim: claim.where):
        rows = "".join(f"<tr>{_claim_cells(claim)}</tr>" for claim in members)
        heading = f'<tr><th colspan="3" scope="rowgroup">{escape(where)}</th></tr>'
        parts.append(f"<tbody>{heading}{rows}</tbody>")
    return f'<div class="scroll" tabindex="0"><table class="claims">{"".join(parts)}</table></div>'


def _claim_cells(claim: "Claim") -> str:
    kind = BADGES.get(claim.verdict, "open")
    measured, reason = mathematics(claim.measured), mathematics(claim.reason)
    told = f'<div class="measured">{measured}</div>{reason}'
    if len(claim.measured) > SHORT:
        lines = measured.replace(". ", "<br>")
        told = f"{reason}<details><summary>measured</summary>{lines}</details>"
    return (
        f'<td><span class="verdict {kind}">{escape(claim.verdict)}</span></td>'
        f"<td>{mathematics(claim.text)}</td>"
        f"<td>{told}</td>"
    )


def constants_table(constants: Sequence["Constant"], facts: Mapping[str, Any]) -> str:
    """The caption's constants beside ours."""
    rows = (
        [
            f"<i>{mathematics(constant.name)}</i>",
            escape(number(constant.paper)),
            ("≥ " if constant.fact.endswith("_at_least") else "")
            + escape(number(facts.get(constant.fact))),
            mathematics(constant.remark),
        ]
        for constant in constants
    )
    return table(["constant", "paper", "here", "remark"], rows, "constants")


def costs_table(runs: Sequence[StoredRun], measure: str) -> str:
    """Rounds until each target was met for good; the page's script shows other costs on demand."""
    head = [
        "run",
        *(
            f"{'gap' if measure == 'gap' else 'KKT'} ≤ {power(round(math.log10(target)))}"
            for target in TARGETS
        ),
    ]
    looks = styles(runs)
    rows = []
    for run, name, look in zip(runs, labels(runs, lambda r: r.case.label), looks, strict=True):
        told = "".join(f'<span class="tag">{escape(word)}</span>' for word in remarks(run))
        others = " = ".join(["", *(run.case.notes.get("aliases") or [])])
        together = escape(name + others).replace(" = ", "\u00a0=\u00a0")
        cells = [f"{swatch(look)}{together} {told}"]
        cells += [_cost_cell(run, target, measure) for target in TARGETS]
        last = run.trace[measure][-1] if len(run.trace.get(measure, ())) else None
        ending = escape(str(run.status))
        if run.status in ("SKIPPED", "FAILED"):
            ending += f"<details><summary>why</summary>{escape(run.reason)}</details>"
        rows.append([*cells, mathematics(f"{last:.1e}") if last is not None else "–", ending])
    return table([*head, "last", "status"], rows, "costs")


def _cost_cell(run: StoredRun, target: float, measure: str) -> str:
    costs = costs_at(run, target, measure)
    values = " ".join(f'data-{axis}="{escape(number(value))}"' for axis, value in costs.items())
    return f'<span class="cost" {values}>{escape(number(costs["rounds"]))}</span>'


def costs_at(run: StoredRun, target: float, measure: str) -> dict[str, float | str | None]:
    """What was spent, of each kind, until the target was met for good; None where never."""
    stays = rows_at_gap(run.trace, target, measure)[1] if run.trace else None
    if stays is None:
        return dict.fromkeys(AXES)
    costs: dict[str, float | str | None] = {axis: spent(stays, axis) for axis in AXES}
    return costs | {"seconds": f"{stays['seconds']:.2g}"}


def parameters_table(run: StoredRun) -> str:
    """Every parameter with its source."""
    rows = (
        [f"<code>{escape(name)}</code>", escape(number(value)), mathematics(str(source))]
        for name, (value, source) in run.parameters.items()
    )
    return table(["parameter", "value", "where it comes from"], rows, "parameters")
