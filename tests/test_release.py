"""What a wheel holds, and that the sdist holds enough to make it."""

import dual2
from release_check import ROOT, build, files_of, wheel_of


def test_the_sdist_makes_the_same_wheel_and_nothing_is_missing(tmp_path):
    (tmp_path / "dist").mkdir()
    (tmp_path / "again").mkdir()
    wheel, sdist = build(tmp_path / "dist")
    found = files_of(wheel)
    assert found == files_of(wheel_of(sdist, tmp_path / "again"))
    source = ROOT / "src"
    there = [
        path for path in source.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    ]
    names = {path.relative_to(source).as_posix() for path in there if path.suffix != ".pyc"}
    assert names <= found, names - found
    assert "dual2/py.typed" in found
    assert f"dual2-{dual2.__version__}.dist-info/licenses/LICENSE" in found
