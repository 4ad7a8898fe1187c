"""Checkpoints of one process: the last two, so that all processes always share one.

Processes save at the same rounds. A process that saves at round R₂ has passed an agreement in
which every other took part after it had saved at R₁, so the set of R₁ is complete as long as
nobody deletes it before R₂ is complete. A crash between two writes therefore costs one interval.
"""

import logging
import re
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from dual2.errors import Dual2Error, ProblemError
from dual2.files import read_arrays, write_arrays
from dual2.solving.restoring import find_broken

KEPT = 2
"""Checkpoints that a process keeps."""

INTERVAL = 5.0
"""Seconds between two of them, unless told otherwise."""

_FORMAT, _STATE = 1, "state/"
_SHARE = 50
"""Saving may take one part in so many of the time, whatever the interval."""
_log = logging.getLogger("dual2")


class Checkpoints:
    """The checkpoints of one process in a folder, which other processes may use as well.

    ``rank``, ``ranks``: this process and how many there are; ``owned``: its agents; ``seconds``:
    time between two of them, longer where saving takes long, unless it is 0. ``held`` says whether
    one could not be written: then no process may save in this run any more, so that those that all
    processes have stay.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = Checkpoints(Path(folder), rank=0, ranks=2, owned=[0, 1], seconds=60.0)
    ...     for rounds in (100, 250, 700):
    ...         store.save(rounds, {"x": np.arange(3.0)})
    ...     store.rounds(), store.load(250)["x"].tolist()
    ([250, 700], [0.0, 1.0, 2.0])
    """

    def __init__(
        self, folder: Path, rank: int, ranks: int, owned: Sequence[int], seconds: float
    ) -> None:
        self.folder, self.rank, self.ranks = folder, rank, ranks
        self.owned, self.seconds = list(owned), seconds
        self._last, self._cost = time.monotonic(), 0.0
        self._own: list[int] = []
        self.held = False

    @property
    def due(self) -> bool:
        """Whether it is time for the next one, by this process's clock."""
        pause = max(self.seconds, _SHARE * self._cost) if self.seconds else 0.0
        return time.monotonic() - self._last >= pause

    def save(self, rounds: int, state: dict[str, Any]) -> None:
        """Write a checkpoint, then delete all but the last ones of this run.

        Those of an earlier run stay until this one has something better. Where there is no room
        the run goes on without.
        """
        begun = time.monotonic()
        own = {"format": _FORMAT, "ranks": self.ranks, "owned": np.array(self.owned, np.int64)}
        try:
            write_arrays(self._file(rounds), own | {_STATE + k: v for k, v in state.items()})
        except OSError as error:
            self.held = True
            text = f"{self._file(rounds)} could not be written: {error}. No more checkpoints."
            _log.warning("%s", text)
            print(f"dual2: {text}", file=sys.stderr, flush=True)
            return
        self._own = [*self._own, rounds][-KEPT:]
        for old in set(self.rounds()).difference(self._own):
            self._file(old).unlink(missing_ok=True)
        self._last = time.monotonic()
        self._cost = self._last - begun

    def rounds(self) -> list[int]:
        """Rounds of the checkpoints that are there, ascending."""
        pattern = re.compile(rf"rank-{self.rank}\.(\d{{1,18}})\.npz")
        found = (pattern.fullmatch(file.name) for file in self.folder.glob("rank-*.npz"))
        return sorted(int(match[1]) for match in found if match)

    def load(self, rounds: int) -> dict[str, Any]:
        """The state saved at a round, to go on from; an error if it is of other agents."""
        file = self._file(rounds)
        arrays = read_arrays(file)
        state = {k.removeprefix(_STATE): v for k, v in arrays.items() if k.startswith(_STATE)}
        foreign = arrays.keys() - {"format", "ranks", "owned"} - {_STATE + k for k in state}
        if _number(arrays, "format") != _FORMAT or not state or foreign:
            raise ProblemError(f"{file} is not a checkpoint of this version of dual2.")
        if (broken := find_broken(state)) is not None:
            raise ProblemError(
                f"{file}, entry {_STATE + broken[0]!r}, {broken[1]}: there is nothing to go on "
                "with. Start afresh with --force."
            )
        ranks, owned = _number(arrays, "ranks"), arrays.get("owned", np.zeros(0)).tolist()
        if (ranks, owned) != (self.ranks, self.owned):
            raise Dual2Error(
                f"{file} was written by one of {ranks} processes, for agents {owned}; now there "
                f"are {self.ranks} and this one owns {self.owned}. Resume with {ranks} processes "
                "and the same partition."
            )
        self._own = [rounds]
        return state

    def clear(self) -> None:
        """Delete the checkpoints of this process."""
        for rounds in self.rounds():
            self._file(rounds).unlink(missing_ok=True)
        with suppress(OSError):  # others use it
            self.folder.rmdir()

    def _file(self, rounds: int) -> Path:
        return self.folder / f"rank-{self.rank}.{rounds}.npz"


def _number(arrays: Mapping[str, np.ndarray], name: str) -> int | None:
    """An entry that is one whole number, None if it is anything else."""
    found = arrays.get(name, np.zeros(0))
    return int(found) if found.shape == () and found.dtype.kind in "iu" else None
