"""The package speaks the field's words: names of earlier versions do not come back."""

import ast
import io
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import dual2

SOURCE = Path(dual2.__file__).parent
PARTIES = ("peers", "processes", "parties", "vertical")
"""Folders whose words are tested beside them."""
FORBIDDEN = frozenset(
    """
    Springs springs springs_of Question look_all see survey _stuck _follow _examine Judging
    judges_itself Verdict reconsider priceless aside faced Desk Look Faces Reduced Spanned
    Directions Together Alone Compiled SecondDual Agreement share_of everyone collect swap having
    OverSums total_of spliced Loan Lent Unowned lend newton_rows
    """.split()
)
"""Identifiers, most of them of Newton's method and of the runtime, that have other names now."""
SAID_BY_FORMULA = frozenset("pull pulls push anchor".split())
"""Identifiers that say A_iᵀλ, A_i x and the centre of a prox by a metaphor."""
FORMULA_FOLDERS = "engine functions methods network problem runtime solving".split()
DUPLICATE_CLASSES, DUPLICATE_MODULES, FOREIGN_WRITES = 8, 8, 18
"""Most names that several classes or modules have, and most assignments in ``methods`` to
attributes of other objects than ``self``."""


def identifiers(file: Path) -> Iterator[str]:
    for token in tokenize.generate_tokens(io.StringIO(file.read_text(encoding="utf-8")).readline):
        if token.type == tokenize.NAME:
            yield token.string


def test_no_forbidden_identifier_outside_the_folders_of_the_parties():
    files = [f for f in SOURCE.rglob("*.py") if not set(PARTIES) & set(f.relative_to(SOURCE).parts)]
    assert len(files) > 200
    old_names = SOURCE / "runtime" / "__init__.py"
    found = {
        f"{file.relative_to(SOURCE)}: {name}"
        for file in files
        if file != old_names
        for name in identifiers(file)
        if name in FORBIDDEN
    }
    assert not found


def test_kernels_and_definitions_name_products_by_their_formula():
    files = [
        file
        for folder in FORMULA_FOLDERS
        for file in (SOURCE / folder).rglob("*.py")
        if not {"peers", "interior_point"} & set(file.parts)
    ]
    found = {
        f"{file.relative_to(SOURCE)}: {name}"
        for file in files
        for name in identifiers(file)
        if name in SAID_BY_FORMULA
    }
    assert not found


def _is_foreign_write(node: ast.AST) -> bool:
    """Whether an attribute of something else than ``self`` or ``cls`` is assigned."""
    if not (isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)):
        return False
    return not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))


def test_names_and_foreign_writes_do_not_become_more():
    files = list(SOURCE.rglob("*.py"))
    trees = {file: ast.parse(file.read_text(encoding="utf-8")) for file in files}
    nodes = {file: list(ast.walk(tree)) for file, tree in trees.items()}
    classes = Counter(
        node.name for found in nodes.values() for node in found if isinstance(node, ast.ClassDef)
    )
    modules = Counter(file.stem for file in files if file.stem != "__init__")
    foreign = sum(
        _is_foreign_write(node)
        for file, found in nodes.items()
        if "methods" in file.parts
        for node in found
    )
    assert sum(count > 1 for count in classes.values()) <= DUPLICATE_CLASSES
    assert sum(count > 1 for count in modules.values()) <= DUPLICATE_MODULES
    assert foreign <= FOREIGN_WRITES
