"""Wheel and sdist as a user gets them: built, installed in clean environments, tried.

    python tests/release_check.py           # with every Python from 3.11 to 3.13 that is found

The wheel that is built from the sdist has the same files as the one built from the tree. Each
environment has the pinned versions of ``requirements.lock`` and nothing else, and is used from a
folder in which there is no source: a version, an example that is solved, a report.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("python3.11", "python3.12", "python3.13")
TRIED = """\
import dual2, sys
assert sys.prefix in dual2.__file__, dual2.__file__
problem, network, options = dual2.load_problem("problem")
result = dual2.solve(problem, network)
result.report("run.html")
print(result.summary)
"""
"""What is tried beside the command line."""


def run(*line: object, cwd: Path = ROOT) -> str:
    """Run a command, quietly unless it fails; what it printed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [str(part) for part in line], cwd=cwd, env=kept, text=True, capture_output=True
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, line))}\n{done.stdout}{done.stderr}")
    return done.stdout


def build(folder: Path) -> tuple[Path, Path]:
    """Wheel and sdist of the tree, in a folder."""
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


def files_of(wheel: Path) -> set[str]:
    """Names of what a wheel installs."""
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def wheel_of(sdist: Path, folder: Path) -> Path:
    """The wheel that a user's pip would make of an sdist."""
    line = ("-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", folder)
    run(sys.executable, *line, sdist)
    (wheel,) = folder.glob("*.whl")
    return wheel


def tried(python: str, wheel: Path, folder: Path) -> str:
    """What the installed package says in a clean environment of one Python."""
    run(python, "-m", "venv", folder / "env")
    bin_ = folder / "env" / "bin"
    pip = (bin_ / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(*pip, "-c", ROOT / "requirements.lock", f"{wheel}[plot]")
    run(bin_ / "dual2", "--version", cwd=folder)
    run(bin_ / "dual2", "example", "problem", cwd=folder)
    run(bin_ / "dual2", "solve", "problem", "--out", "x.json", cwd=folder)
    return run(bin_ / "python", "-c", TRIED, cwd=folder).strip()


def runs(python: str) -> bool:
    """Whether a Python of that name is here and starts; a version manager's stand-in may not."""
    if shutil.which(python) is None:
        return False
    return subprocess.run([python, "--version"], capture_output=True).returncode == 0


def main() -> int:
    """Build and try; 0 if all went well."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name in ("dist", "again"):
            (folder / name).mkdir()
        wheel, sdist = build(folder / "dist")
        again = wheel_of(sdist, folder / "again")
        differing = files_of(wheel) ^ files_of(again)
        if differing:
            raise SystemExit(f"The sdist gives another wheel: {sorted(differing)}")
        print(f"{wheel.name}: {len(files_of(wheel))} files, the same from {sdist.name}")
        found = [python for python in PYTHONS if runs(python)] or [sys.executable]
        for python in found:
            place_of = folder / Path(python).name
            place_of.mkdir()
            print(f"{python}: {tried(python, wheel, place_of)}", flush=True)
        print(f"not found here: {', '.join(set(PYTHONS) - set(found)) or 'none'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
