"""A page for each method, made from the registry, the guide and the docstrings before a build."""

import inspect
import re
import textwrap
from importlib import import_module

from decision_picture import picture

from dual2.errors import counted
from dual2.methods import METHODS, Method
from dual2.methods.guide import GUIDES, Guide

FOLDER = "methods"
FAMILIES = {
    "Over exact sums": ("Newton", "interior-point", "L-BFGS"),
    "Of the paper": ("iD2A", "MiD2A"),
    "Compared with: gradients": ("NPGA", "DCDA", "iD2GT", "APAPC", "Nedic", "FISTA", "VF-"),
    "Compared with: exact local solves": (
        *("Tracking-ADMM", "NECPD", "DC-ADMM", "IDC-ADMM", "DPMM"),
        *("CoLA", "CoCoA+", "Sharing-ADMM"),
    ),
    "Compared with: continuous time": ("IDEA", "Proj-IDEA"),
}
"""Headings of the list, and how the names below them begin."""

PAGE = """\
# {name}

{summary}.{remark}

:::{{list-table}}
:stub-columns: 1

* - problem
  - $\\min \\sum_i f_i(x_i) + g_i(x_i) + h(\\sum_i A_i x_i)$
* - $f_i$
  - {f}
* - $g_i$
  - {g}
* - $h$
  - {h}
* - $A_i$
  - {A}
* - what travels
  - {reveals}; in one iteration {vectors} per neighbour in {rounds}
:::

## When to use it

{when}

## Guarantee

{guarantee}

## Update

{update}

Source: {{mod}}`dual2.methods.{module}`

## Parameters

{parameters}

```python
result = dual2.solve(problem, network, method="{name}")
```
{cited}"""


def slug(name: str) -> str:
    """File name of a method's page."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def page(method: Method, guide: Guide) -> str:
    """The page of one method."""
    needs, sources = method.needs, method.sources
    text = inspect.getdoc(import_module(f"dual2.methods.{guide.module}")) or ""
    rows = [f"| `{name}` | {source} |" for name, source in sources.items()]
    table = ["| parameter | unless given |", "|---|---|", *rows] if rows else ["It has none."]
    cited = "\n\n## Sources\n\n" + " ".join(f"{{cite:t}}`{key}`" for key in guide.sources)
    return PAGE.format(
        name=method.name,
        summary=escaped(method.summary[0].upper() + method.summary[1:]),
        remark=f" {escaped(method.remark)}." if method.remark else "",
        f=escaped(needs.f.words),
        g=escaped(needs.g.words),
        h=escaped(needs.h.words),
        A=escaped(needs.A.words or "any"),
        reveals=escaped(method.reveals),
        vectors=escaped(counted(method.vectors, "p-vector")),
        rounds=escaped(counted(method.rounds, "round")),
        when=escaped(guide.when),
        guarantee=escaped(guide.guarantee),
        update="\n\n".join(map(_paragraph, text.split("\n\n"))),
        module=guide.module,
        parameters="\n".join(line.replace("|row of A_i|", "‖row of A_i‖") for line in table),
        cited=cited + "\n" if guide.sources else "",
    )


def _paragraph(text: str) -> str:
    """A paragraph of a docstring: formulas, which are indented, as they stand."""
    if text.startswith("    "):
        return f"```text\n{textwrap.dedent(text)}\n```"
    return escaped(re.sub(r":\w+:`~?([^`]*)`", r"\1", text).replace("``", ""))


def escaped(text: str) -> str:
    """Text in which no sign is taken for Markdown."""
    return re.sub(r"([*_$\[\]<>|])", r"\\\1", text)


def index() -> str:
    """The list of all methods, by family."""
    lines = [
        "# Methods",
        "",
        "Each with problem, update, guarantee, parameters, what travels.",
    ]
    lines += ["[](../choosing.md) tells which one when; `dual2 methods` prints the same table.", ""]
    for title, starts in FAMILIES.items():
        names = [name for name in METHODS if name.startswith(starts) and name in GUIDES]
        lines += [f"## {title}", "", "```{toctree}", ":maxdepth: 1", ""]
        lines += [*map(slug, names), "```", ""]
    return "\n".join(lines)


def pages() -> dict[str, str]:
    """Text of each page by its name."""
    texts = {slug(name): page(METHODS[name], guide) for name, guide in GUIDES.items()}
    return texts | {"index": index(), "choosing.svg": picture()}
