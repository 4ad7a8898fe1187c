"""Every command of the README, one after the other, in one clean shell.

    python tests/readme_commands.py           # a copy of the committed tree, from nothing: minutes
    python tests/readme_commands.py --all     # with the tests and all that developers run as well

The commands are read from the README itself: what is printed there is what is run. A clean shell
has no profile, no cache and only the environment that finds packages. ``pipx`` installs for a
person and is left out where there is none.
"""

import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HEADINGS = ("Two commands", "Command line", "Develop")
"""Sections whose blocks are commands."""

CONFIG = """\
[[problems]]
build = "elastic_net"
n = 4
[[networks]]
build = "path"
[[methods]]
method = "iD2A"
"""
"""A benchmark of one's own, where the README has ``CONFIG.toml``."""

INSTALLED = ("PIP_INDEX_URL", "PIP_CONFIG_FILE", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
"""What finds packages, and nothing else, is taken over from the shell outside."""


def commands(text: str) -> list[str]:
    """The commands of a README in their order, without comments, words in capitals filled in.

    Examples
    --------
    >>> commands("## Command line\\n\\n```\\ndual2 example DIR   # write it\\n```\\n")
    ['dual2 example problem']
    """
    found = []
    for section in re.split(r"^## ", text, flags=re.MULTILINE):
        if section.startswith(HEADINGS):
            for block in re.findall(r"^```\n(.*?)^```", section, flags=re.MULTILINE | re.DOTALL):
                lines = [line.partition("  #")[0].strip() for line in block.splitlines()]
                found += [_filled(line) for line in lines if line]
    return found


def _filled(line: str) -> str:
    return re.sub(r"\bDIR\b", "benchmark" if " bench " in line else "problem", line)


def in_a_clean_shell(
    lines: list[str], folder: Path, environment: dict[str, str]
) -> "subprocess.CompletedProcess[str]":
    """Run lines in one shell that ends at the first that fails; each is told before it is run."""
    (folder / "CONFIG.toml").write_text(CONFIG)
    text = "\n".join(f"echo {line!r}\n{line}" for line in lines)
    shell = [shutil.which("bash") or "/bin/sh", "-c", f"set -e\n{text}\necho all of them\n"]
    clean = {"LANG": "C.UTF-8", "TERM": "dumb"} | environment
    return subprocess.run(shell, cwd=folder, env=clean, text=True, capture_output=True)


def main() -> int:
    """Run them from nothing; the exit code of the shell."""
    left = [] if "--all" in sys.argv else ["make test", "make lint"]
    left += [] if shutil.which("pipx") else ["pipx"]
    lines = commands((ROOT / "README.md").read_text(encoding="utf-8"))
    chosen = [line for line in lines if not line.startswith(tuple(left))]
    with tempfile.TemporaryDirectory() as home:
        tree, begun = Path(home) / "dual2", time.monotonic()
        tree.mkdir()
        files = subprocess.run(
            ["git", "archive", "HEAD"], cwd=ROOT, check=True, capture_output=True
        )
        subprocess.run(["tar", "-x"], cwd=tree, input=files.stdout, check=True)
        found = {name: os.environ[name] for name in INSTALLED if name in os.environ}
        path = f"{tree}/.venv/bin:/usr/local/bin:/usr/bin:/bin"
        done = in_a_clean_shell(chosen, tree, {"HOME": home, "PATH": path} | found)
        spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(done.stdout, done.stderr)
    print(f"{len(chosen)} commands, exit code {done.returncode}, {time.monotonic() - begun:.0f} s,")
    print(f"{spent.ru_utime + spent.ru_stime:.0f} s of CPU; left out: {set(lines) - set(chosen)}")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
