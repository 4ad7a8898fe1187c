"""Checkpoints of a process: the last two stay, foreign ones are refused, half a write is none."""

import numpy as np
import pytest

from dual2.errors import Dual2Error
from dual2.processes.checkpoints import Checkpoints


def store(folder, rank=0, ranks=2, owned=(0, 1), seconds=60.0):
    return Checkpoints(folder, rank, ranks, owned, seconds)


def test_state_comes_back_bit_for_bit(tmp_path):
    state = {"x": np.random.default_rng(0).standard_normal(7), "k": 3, "best": np.inf, "mark": "a"}
    store(tmp_path).save(40, state)
    again = store(tmp_path).load(40)
    assert again.keys() == state.keys()
    assert again["x"].tobytes() == state["x"].tobytes()
    assert (again["k"].item(), again["best"].item(), str(again["mark"])) == (3, np.inf, "a")


def test_the_last_two_are_kept_by_number_not_by_name(tmp_path):
    one, other = store(tmp_path), store(tmp_path, rank=1)
    for rounds in (90, 100, 1000):
        one.save(rounds, {"x": np.zeros(1)})
    other.save(90, {"x": np.zeros(1)})
    assert one.rounds() == [100, 1000]
    assert other.rounds() == [90]
    one.clear()
    assert [file.name for file in tmp_path.iterdir()] == ["rank-1.90.npz"]


def test_a_write_that_was_cut_leaves_the_old_ones(tmp_path, monkeypatch, capsys):
    one = store(tmp_path)
    one.save(10, {"x": np.zeros(1)})

    def crash(*_):
        raise OSError("power cut")

    monkeypatch.setattr("os.replace", crash)
    one.save(20, {"x": np.ones(1)})
    assert one.held and "rank-0.20.npz could not be written: power cut" in capsys.readouterr().err
    assert one.rounds() == [10] and len(list(tmp_path.iterdir())) == 1
    assert one.load(10)["x"].tolist() == [0.0]


def test_going_on_from_an_earlier_round_drops_the_later_one(tmp_path):
    """Else the next one saved would not be among the last two, and no set be complete."""
    one = store(tmp_path)
    for rounds in (100, 400):
        one.save(rounds, {"x": np.zeros(1)})
    one = store(tmp_path)
    one.load(100)
    assert one.rounds() == [100, 400]
    one.save(200, {"x": np.zeros(1)})
    assert one.rounds() == [100, 200]


@pytest.mark.parametrize("other", [{"ranks": 3}, {"owned": (0, 2)}])
def test_other_processes_or_agents(tmp_path, other):
    store(tmp_path).save(10, {"x": np.zeros(1)})
    with pytest.raises(
        Dual2Error, match=r"one of 2 processes, for agents \[0, 1\].*same partition"
    ):
        store(tmp_path, **other).load(10)


def test_not_a_checkpoint(tmp_path):
    np.savez(tmp_path / "rank-0.10.npz", x=np.zeros(3))
    with pytest.raises(Dual2Error, match="not a checkpoint"):
        store(tmp_path).load(10)
    (tmp_path / "rank-0.11.npz").write_bytes(b"PK")
    with pytest.raises(Dual2Error, match="cannot be read"):
        store(tmp_path).load(11)


def test_due_by_the_clock(tmp_path):
    assert store(tmp_path, seconds=0.0).due
    assert not store(tmp_path, seconds=1e6).due
