"""Whatever a file holds, its reader ends with an error that names it: nothing runs, nothing grows.

Bytes are broken for every reader alike (``malformed.py``); ``test_malformed_contents.py`` has
contents that are wrong.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dual2 as d2
from dual2.errors import Dual2Error
from dual2.files import read_bytes
from hostile_files import READERS, TOML, ZIPPED, honest_files, modest, placed, refused
from malformed import ARCHIVES, PLACES, TEXTS


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    return honest_files(tmp_path_factory.mktemp("honest"))


@pytest.mark.parametrize("reader", READERS)
def test_honest_files_are_read(honest, tmp_path, reader):
    file, read = placed(honest, tmp_path, reader)
    with modest(tmp_path, sum(f.stat().st_size for f in tmp_path.rglob("*") if f.is_file())):
        read(file)


@pytest.mark.parametrize("reader", ZIPPED)
@pytest.mark.parametrize("change", ARCHIVES)
def test_archives(honest, tmp_path, reader, change):
    file, read = placed(honest, tmp_path, reader)
    file.write_bytes(ARCHIVES[change](file.read_bytes()))
    refused(tmp_path, file, read, size=file.stat().st_size)


@pytest.mark.parametrize("reader", TOML)
@pytest.mark.parametrize("change", TEXTS)
def test_texts(honest, tmp_path, reader, change):
    file, read = placed(honest, tmp_path, reader)
    file.write_bytes(TEXTS[change](file.read_bytes()))
    refused(tmp_path, file, read)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("place", PLACES)
def test_what_is_no_file(honest, tmp_path, reader, place):
    file, read = placed(honest, tmp_path, reader)
    file.unlink()
    PLACES[place](file)
    refused(
        tmp_path, file.with_suffix("") if reader == "problem.npz" else file, lambda _: read(file)
    )


@pytest.mark.parametrize("reader", [*ZIPPED, *TOML, "record", "plan"])
@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(data=st.data())
def test_any_damage_is_an_error_or_none(honest, tmp_path_factory, reader, data):
    """Bytes exchanged, cut out or put in, wherever it may be."""
    file, read = placed(honest, tmp_path_factory.mktemp("any"), reader)
    raw = bytearray(file.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(raw)))
        end = start + data.draw(st.sampled_from([0, 1, 1, 4, 40]))
        raw[start:end] = data.draw(st.binary(max_size=8))
    file.write_bytes(raw)
    try:
        read(file)
    except Dual2Error as error:
        assert str(error)


def test_three_megabytes_do_not_become_three_gigabytes(honest, tmp_path):
    """Nor 130 kilobytes 130 megabytes: what the entries claim is compared first."""
    file, _ = placed(honest, tmp_path, "result")
    with file.open("wb") as stream:
        np.savez_compressed(stream, zeros=np.zeros(2**24))
    assert file.stat().st_size < 2**18
    refused(tmp_path, file, d2.Result.load, "claim to hold")


def test_a_file_that_grows_is_refused(tmp_path):
    (tmp_path / "long").write_bytes(100 * b"a")
    with pytest.raises(Dual2Error, match="100 bytes; expected at most 99"):
        read_bytes(tmp_path / "long", most=99)
    assert len(read_bytes(tmp_path / "long", most=100)) == 100
