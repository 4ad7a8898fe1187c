"""One of two processes of runs whose every message is recorded; writes what it saw as JSON.

``wiretap.py FOLDER OUT METHOD …`` solves the problem in FOLDER by each METHOD under mpiexec,
gathers the answer as a control, and writes ``OUT/<method>.<rank>``: the files opened, the messages
by kind, destination and length, the agreements by their place in the source, and where private
numbers appeared.
"""

import json
import sys
from collections import Counter
from functools import partial
from pathlib import Path

OPENED: list[str] = []
if __name__ == "__main__":
    sys.addaudithook(lambda event, args: OPENED.append(str(args[0])) if event == "open" else None)

import numpy as np  # noqa: E402

from dual2.processes import worker  # noqa: E402
from dual2.processes.options import ProcessOptions  # noqa: E402
from dual2.runtime import Communicator  # noqa: E402
from dual2.solving.stopping import StoppingTest  # noqa: E402
from dual2.solving.storage import load_agents  # noqa: E402

MESSAGES: list[tuple[str, int, bytes]] = []
AGREED: list[tuple[str, str, int, bool]] = []
POINTS: list[np.ndarray] = []
LAYERS = ("dual2.runtime", "dual2.problem.problem", "contextlib", __name__)


def place_in_source() -> str:
    """The function that wanted an agreement, as ``module.name``."""
    frame = sys._getframe(2)
    while frame.f_globals["__name__"].startswith(LAYERS) and frame.f_back is not None:
        frame = frame.f_back
    module = frame.f_globals["__name__"].removeprefix("dual2.")
    return f"{module}.{frame.f_code.co_qualname}"


def tap(name: str) -> None:
    """Record the agreements of one kind."""
    original = getattr(Communicator, name)

    def tapped(self: Communicator, rows: np.ndarray) -> np.ndarray:
        AGREED.append((place_in_source(), name, np.shape(rows)[1], self.mode.counted))
        tapped.comm = self  # type: ignore[attr-defined]
        return original(self, rows)

    setattr(Communicator, name, tapped)


def remember(original, self, x, *rest):
    """Record the iterates that the stopping tests see."""
    POINTS.append(x.copy())
    return original(self, x, *rest)


def private_numbers(folder: str, owned: list[int]) -> dict[str, set[bytes]]:
    """Entries of A_i, the data in f_i, every x_i and ∇f_i(x_i), as the bytes of doubles."""
    agents = list(load_agents(folder, owned).values())
    cuts = np.cumsum([agent.dim for agent in agents])[:-1]
    parts = [np.split(x, cuts) for x in POINTS]
    found = {
        "A": [agent.A for agent in agents],
        "data": [v for agent in agents for v in (agent.f.M, agent.f.b)],
        "x": [np.concatenate(x) for x in parts],
        "gradient": [a.f.grad(v) for x in parts for a, v in zip(agents, x, strict=True)],
    }
    return {name: telling(values) for name, values in found.items()}


def telling(arrays: list[np.ndarray]) -> set[bytes]:
    """Numbers that do not occur by chance: 0, 1, 0.25 and the like are left out."""
    values = np.unique(np.concatenate([np.asarray(v, dtype=float).ravel() for v in arrays]))
    return {v.tobytes() for v in values if v * 4096 != np.round(v * 4096)}


def record(folder: str, file: Path, method: str) -> None:
    """Solve, and write what this process saw."""
    for seen in (MESSAGES, AGREED, POINTS):
        seen.clear()
    chosen = {"method": method, "tol": 1e-6, "max_rounds": 3000}
    asked = ProcessOptions(Path(folder), chosen, out=file.with_suffix(".json"), gather=True)
    result, _, silent = worker.take_part(asked)
    numbers = private_numbers(folder, result.owned)
    comm = Communicator.allreduce_max.comm
    route = comm.transport.route(comm.network)
    report = {
        "opened": sorted({Path(name).name for name in OPENED if name.startswith(folder)}),
        "owned": result.owned,
        "status": str(result.status),
        "counts": result.as_dict()["counts"],
        "messages": Counter(f"{kind} {to} {len(content)}" for kind, to, content in MESSAGES),
        "agreed": AGREED,
        "ups": [{str(r): len(v) for r, v in level.outgoing.items()} for level in route.levels],
        "downs": route.targets,
        "height": comm.network.tree.height,
        "private": {name: len(values) for name, values in numbers.items()},
        "seen in": {
            name: sorted({kind for kind, _, text in MESSAGES if any(v in text for v in values)})
            for name, values in numbers.items()
        },
    }
    file.with_suffix(f".{int(silent)}").write_text(json.dumps(report))


def main() -> None:
    folder, out, *methods = sys.argv[1:]
    tap("allreduce_max")
    tap("allreduce_sum")
    StoppingTest.test = lambda self, x, *rest, _do=StoppingTest.test: remember(_do, self, x, *rest)
    worker.Mpi = partial(
        worker.Mpi,
        observer=lambda kind, _, to, content: MESSAGES.append(
            (kind, int(to), np.ascontiguousarray(content).tobytes())
        ),
    )
    for method in methods:
        record(folder, Path(out) / method, method)


if __name__ == "__main__":
    main()
