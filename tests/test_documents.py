"""What the documents tell people to type is understood: commands, parts of benchmarks, options."""

import re
import runpy
import shlex
import shutil
import sys
from pathlib import Path

import pytest
from sphinx_gallery.utils import check_spaces_in_filenames

from dual2.commands.app import COMMANDS, load

ROOT = Path(__file__).resolve().parents[1]
BENCHMARKS = ROOT / "benchmarks"
DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), BENCHMARKS / "README.md", *(ROOT / "docs").glob("**/[a-z]*.md")]
)
TEXTS = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in DOCUMENTS
    if not {"_build", "gallery", "methods", "generated"} & set(path.parts)
}
COMMAND = r"`(?:python )?(?:benchmarks/)?([a-z_]+)\.py([^`\n]*)`((?:, `[^`\n.]+`)*)"
"""A script with what follows it, and what follows it in other calls."""


def understand(line: str, whole: bool = True) -> None:
    """Parse a command line as ``dual2`` does, and run nothing; in part, its options only."""
    words = shlex.split(line, comments=True)[1:]
    if not words or words[0].startswith("--"):
        assert words in ([], ["--help"], ["--version"]), line
        return
    assert words[0] in COMMANDS, line
    command, words = load(words[0]), words[1:]
    while words and hasattr(command, "commands"):
        assert words[0] in command.commands, line
        command, words = command.commands[words[0]], words[1:]
    known = {name for parameter in command.params for name in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= known | {"--help"}, line
    if whole:
        command.make_context(command.name, words)


@pytest.mark.parametrize("document", TEXTS)
def test_commands_of_a_document_are_understood(document):
    text = TEXTS[document]
    for line in re.findall(r"^ *(dual2 [a-z].*)", text, flags=re.MULTILINE):
        understand(re.sub(r"\bN\b", "3", line.partition("  #")[0]))
    for line in re.findall(r"`(dual2 [a-z]+[^`\n]*)`", text):
        understand(line.partition("|")[0], whole=False)


@pytest.mark.parametrize("line", ["dual2 sovle", "dual2 solve DIR --bogus", "dual2 party nothing"])
def test_a_command_that_does_not_exist_is_noticed(line):
    with pytest.raises(AssertionError):
        understand(line)


def benchmark_commands(text: str) -> list[tuple[str, list[str], list[str]]]:
    """Scripts that a text names, each with the parts and options behind it.

    Examples
    --------
    >>> benchmark_commands("| `choices.py schedules`, `penalty --fast` | `scale.py` |")
    [('choices', ['schedules'], []), ('choices', ['penalty'], ['--fast']), ('scale', [], [])]
    """
    blocks = re.sub(r"^ *(python benchmarks/.*?)( +#.*)?$", r"`\1`", text, flags=re.MULTILINE)
    found = []
    for script, first, others in re.findall(COMMAND, blocks):
        for line in [first, *re.findall(r"`([^`]*)`", others)]:
            parts, *options = re.split(r"(?:^|\s)(?=--)", line)
            found.append((script, parts.split(), [option.split()[0] for option in options]))
    return [command for command in found if (BENCHMARKS / f"{command[0]}.py").exists()]


def test_benchmarks_have_the_parts_and_options_that_documents_name():
    shared = (BENCHMARKS / "common/report.py").read_text(encoding="utf-8")
    texts = [(name, re.sub(r"`[a-z_]+\.py", "`", text)) for name, text in TEXTS.items()]
    texts += [("its table", TEXTS["benchmarks/README.md"].partition("## Which command")[2])]
    named = {document: benchmark_commands(text) for document, text in texts}
    assert sum(map(len, named.values())) >= 60
    assert ("parties", [], ["--memory", "--delay"]) in named["its table"]
    for document, commands in named.items():
        for script, parts, options in commands:
            source = (BENCHMARKS / f"{script}.py").read_text(encoding="utf-8")
            missing = [p for p in parts if f'"{p}": report_{p}' not in source]
            quoted = set(re.findall(r'"(?:--)?([a-z-]+)"', source + shared))
            missing += [option for option in options if option[2:] not in quoted]
            assert not missing, f"{document}: {script}.py has no {missing}"


def test_a_space_in_the_path_of_the_tree_is_no_warning_and_one_in_a_name_is(
    tmp_path, caplog, monkeypatch
):
    """Of the gallery, which looks for spaces in whole paths."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("MPLBACKEND", "Agg")
    for name, silent in (("plain.py", True), ("with space.py", False)):
        (tmp_path / name / "docs").mkdir(parents=True)
        (tmp_path / name / "examples").mkdir()
        (tmp_path / name / "examples" / name).touch()
        shutil.copy(ROOT / "docs/conf.py", tmp_path / name / "docs")
        found = runpy.run_path(str(tmp_path / name / "docs/conf.py"))
        assert bool(found.get("suppress_warnings")) is silent
        if silent:
            check_spaces_in_filenames(["/home/a b/examples/plain.py"])
            kinds = {f"{record.type}.{record.subtype}" for record in caplog.records}
            assert kinds == set(found["suppress_warnings"])
