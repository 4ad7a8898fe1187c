"""``from_pypsa``: a PyPSA network by region, with the answer written back into the network."""

from collections.abc import Mapping
from typing import Any

from dual2.errors import CapabilityError, ProblemError, near_names
from dual2.models.linopy_models import LinopyProblem, read_linopy
from dual2.models.model_answer import ModelAnswer
from dual2.models.partition import OwnedModel
from dual2.problem import Agent
from dual2.solving.result import Result, Status


class PypsaProblem(LinopyProblem):
    """A problem that remembers the PyPSA network it was read from.

    Attributes
    ----------
    grid : pypsa.Network
        The network; its linopy model is ``model``.
    """

    def __init__(
        self, agents: list[Agent], h: Any, owned: OwnedModel, model: Any, grid: Any
    ) -> None:
        super().__init__(agents, h, owned, model)
        self.grid = grid

    def assign(self, result: Result, *, all_duals: bool = False) -> ModelAnswer:
        """Write the answer into the model and the network, as ``n.optimize()`` would.

        Time series (``generators_t.p``, ``lines_t.p0``, …), optimal capacities, prices
        (``buses_t.marginal_price``) and ``n.objective`` are set. Only a CONVERGED answer is
        written.

        Parameters
        ----------
        result : Result
            Of :func:`dual2.solve` on this problem.
        all_duals : bool
            Also duals that PyPSA has no column for yet, such as ``generators_t.mu_upper``.
        """
        answer = super().assign(result)
        if answer.status == Status.CONVERGED:
            self.grid.optimize.assign_solution()
            self.grid.optimize.assign_duals(all_duals)
            self.grid.optimize.post_processing()
        return answer


def from_pypsa(
    network: Any,
    regions: Any = "country",
    *,
    ties: str | None = None,
    model: Any = None,
    relax: bool = False,
    **create: Any,
) -> PypsaProblem:
    """Read a PyPSA network (1.0 or later) whose regions are the agents.

    Each component belongs to the region of its bus. Lines and links whose buses are in one region
    belong to that region; those between two regions to that of ``bus0``, or to an owner of their
    own. So balances of buses inside a region stay private. The coupling has the balances of
    buses at which another region's line ends, loops of lines through several regions, and
    constraints on all of them, such as a limit of emissions.

    Parameters
    ----------
    network : pypsa.Network
        What ``n.optimize()`` would take.
    regions : str, mapping or Series
        A column of ``n.buses``, or the region of each bus.
    ties : str, optional
        Owner of lines and links between regions; the region of ``bus0`` unless given.
    model : linopy.Model, optional
        ``n.model``, if ``n.optimize.create_model`` was called and the model was changed since.
    relax : bool
        Read binary and integer variables as continuous ones, instead of refusing the model.
        ``linearized_unit_commitment=True`` is PyPSA's own, tighter relaxation.
    **create
        For ``n.optimize.create_model``: ``snapshots``, ``linearized_unit_commitment``, ….

    Returns
    -------
    PypsaProblem
        For :func:`dual2.solve`; its ``assign(result)`` writes the answer into the network.

    Raises
    ------
    CapabilityError
        If PyPSA is missing.
    ProblemError
        If a bus has no region.
    """
    _check_network(network)
    region = _regions(network, regions)
    if model is None:
        model = network.optimize.create_model(**{"include_objective_constant": False} | create)
    elif create:
        raise ProblemError(
            f"Both model= and options of create_model ({', '.join(create)}) were given; expected "
            "one of them."
        )
    rest = "all regions" if ties is None else ties
    blocks = {
        name: owners
        for name in model.variables
        if (owners := _owners_of(network, str(name), region, ties)) is not None
    }
    parts, h, owned = read_linopy(model, blocks, rest, relax)
    return PypsaProblem(parts, h, owned, model, network)


def _check_network(network: Any) -> None:
    """Refuse anything but a network of PyPSA."""
    try:
        import pypsa
    except ImportError as error:
        raise CapabilityError(
            "from_pypsa needs PyPSA, which is not installed: pip install 'dual2[pypsa]'."
        ) from error
    if not isinstance(network, pypsa.Network):
        raise ProblemError(f"from_pypsa needs a pypsa.Network; found {type(network).__name__}.")


def _regions(network: Any, regions: Any) -> dict[str, str]:
    """The region of every bus."""
    buses = _names(network.buses)
    if isinstance(regions, str):
        if regions not in network.buses:
            near = near_names(regions, [str(column) for column in network.buses])
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ProblemError(
                f"n.buses has no column {regions!r}.{hint} Give a column, or a mapping from buses "
                "to regions."
            )
        given = dict(zip(buses, network.buses[regions], strict=True))
    elif isinstance(regions, Mapping) or hasattr(regions, "items"):
        given = dict(regions.items())
    else:
        raise ProblemError(
            f"regions is a {type(regions).__name__}; expected a column of n.buses or a mapping "
            "from buses to regions."
        )
    missing = [bus for bus in buses if given.get(bus) is None or str(given[bus]) in ("", "nan")]
    if missing:
        raise ProblemError(
            f"{len(missing)} buses have no region, such as {missing[0]!r}. Give one to every bus."
        )
    return {bus: str(given[bus]) for bus in buses}


def _names(table: Any) -> list[str]:
    """Names of the components of a table, once each where there are scenarios."""
    return list(dict.fromkeys(table.index.get_level_values(-1)))


def _owners_of(
    network: Any, variable: str, region: dict[str, str], ties: str | None
) -> dict[str, str] | None:
    """The owner of each component that a variable such as ``Line-s`` has; None if it has none."""
    kind, found = variable.split("-", 1)[0], {}
    if "-" not in variable or not hasattr(network.c, kind):
        return None
    table = network.c[kind].static
    table = table[~table.index.get_level_values(-1).duplicated()]
    ports = [column for column in table if column == "bus" or column[3:].isdigit()]
    ports = [column for column in ports if column.startswith("bus")]
    if not ports:
        return None
    for name, *buses in table[ports].itertuples():
        ends = [region[bus] for bus in buses if bus]
        same = len(set(ends)) == 1
        found[name if isinstance(name, str) else name[-1]] = (
            ends[0] if same or ties is None else ties
        )
    return found
