"""What the guides print, as modules: the tests run exactly that."""

import re
import sys
from pathlib import Path
from types import ModuleType

DOCS = Path(__file__).parents[2] / "docs"


def printed(document: str) -> tuple[str, int]:
    """The first listing of a guide that is a program, and the line before it."""
    text = (DOCS / document).read_text(encoding="utf-8")
    found = re.search(r"^```python\n(?!>>>)(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert found is not None, document
    return found[1], text[: found.start(1)].count("\n")


def load(document: str) -> ModuleType:
    """That listing as a module, its kernels cached by the text of the guide."""
    name = Path(document).stem
    if name not in sys.modules:
        program, before = printed(document)
        module = sys.modules[name] = ModuleType(name)
        exec(compile("\n" * before + program, str(DOCS / document), "exec"), module.__dict__)
    return sys.modules[name]
