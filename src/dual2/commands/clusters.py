"""``dual2 solve DIR --cluster ENGINE:N``: a problem folder in workers of Ray, Dask or threads."""

from dual2.clusters.agents_in_folder import cluster_named, problem_in_folder
from dual2.errors import Dual2Error
from dual2.files import refuse_existing, write_atomically
from dual2.processes.options import ProcessOptions
from dual2.processes.persistence import demand_writable
from dual2.solving.result import Result
from dual2.solving.solve import solve
from dual2.solving.storage import to_json


def solve_in_cluster(asked: ProcessOptions, name: str, address: str | None) -> Result:
    """Solve the problem of a folder; answers are written by the workers, or gathered here."""
    _demand_possible(asked)
    gather, folder = asked.gather, None if asked.gather else asked.own_folder
    problem, network, options = problem_in_folder(asked.folder, folder, gather)
    answers = [] if asked.out is None else [asked.out]
    if folder is not None:
        answers = [folder / f"{i}.json" for i in range(problem.n)]
    for file in answers:
        refuse_existing(file, asked.force)
    for place in {file.parent for file in answers}:
        demand_writable(place)
    options |= {**asked.chosen, "record": False, "throw": False}
    with cluster_named(name, address) as cluster:
        result = solve(problem, network, runtime=cluster, **options)
    if gather and asked.out is not None:
        write_atomically(asked.out, to_json(result.as_dict()))
    return result


def _demand_possible(asked: ProcessOptions) -> None:
    """Refuse options that are for MPI."""
    plain = ProcessOptions(asked.folder)
    given = [
        f"--{name.replace('_', '-')}"
        for name in ("resume", "partition", "reduce", "timeout", "log_dir", "checkpoint")
        if getattr(asked, name) != getattr(plain, name)
    ]
    if given:
        raise Dual2Error(f"{', '.join(given)} cannot be used with --cluster; leave it out.")
