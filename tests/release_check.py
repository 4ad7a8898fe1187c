"""Wheel and sdist as a user gets them: built, installed in clean environments, tried.

    python tests/release_check.py           # with every Python from 3.11 to 3.13 that is found

The wheel that is built from the sdist has the same files as the one built from the tree. Each
environment has the pinned versions of ``requirements.lock`` and nothing else, and is used from a
folder in which there is no source: a version, an example that is solved, a report. Environments
are made side by side, as many as there are processors.
"""

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERSIONS = ("3.11", "3.12", "3.13")
MANAGED = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
"""Where a version manager keeps Pythons that are not on the path."""
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
    """Wheel and sdist, both of the tree, in a folder."""
    line = ("-m", "build", "--sdist", "--wheel", "--no-isolation", "--outdir")
    run(sys.executable, *line, folder, ROOT)
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
    run(python, "-m", "venv", "--without-pip", folder / "env")
    bin_ = folder / "env" / "bin"
    pip = (sys.executable, "-m", "pip", "--python", bin_ / "python", "--disable-pip-version-check")
    pinned = ("install", "--quiet", "--no-compile", "-c", ROOT / "requirements.lock")
    run(*pip, *pinned, f"{wheel}[plot]")
    run(bin_ / "dual2", "--version", cwd=folder)
    run(bin_ / "dual2", "example", "problem", cwd=folder)
    run(bin_ / "dual2", "solve", "problem", "--out", "x.json", cwd=folder)
    return run(bin_ / "python", "-c", TRIED, cwd=folder).strip()


def found(version: str) -> str | None:
    """A Python of that version that starts; a version manager's stand-in on the path may not."""
    managed = sorted(MANAGED.glob(f"{version}.*/bin/python"))
    for python in (f"python{version}", *map(str, managed)):
        there = shutil.which(python)
        if there and not subprocess.run([there, "--version"], capture_output=True).returncode:
            return there
    return None


def main() -> int:
    """Build and try; 0 if all went well."""
    pythons = {version: found(version) for version in VERSIONS}
    here = {version: python for version, python in pythons.items() if python}
    here = here or {platform.python_version(): sys.executable}
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(os.cpu_count()) as pool:
        folder = Path(place)
        for name in ("dist", "again", *here):
            (folder / name).mkdir()
        wheel, sdist = build(folder / "dist")
        again = wheel_of(sdist, folder / "again")
        differing = files_of(wheel) ^ files_of(again)
        if differing:
            raise SystemExit(f"The sdist gives another wheel: {sorted(differing)}")
        print(f"{wheel.name}: {len(files_of(wheel))} files, the same from {sdist.name}")
        said = {v: pool.submit(tried, python, wheel, folder / v) for v, python in here.items()}
        for version, answer in said.items():
            print(f"Python {version}: {answer.result()}", flush=True)
    print(f"not found here: {', '.join(v for v in VERSIONS if v not in here) or 'none'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
