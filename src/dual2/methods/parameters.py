"""Parameters of methods: declared once, then given by the caller or set by their rules.

From one declaration follow what ``dual2 methods`` lists, which names and values ``solve`` accepts,
the value that a run uses, and what ``result.parameters`` says about where it came from.
"""

import hashlib
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dual2.errors import CapabilityError, unknown_name
from dual2.methods.coupling import ProblemScales, scales
from dual2.network import AnyNetwork
from dual2.problem import Problem
from dual2.theory import Facts, gather_facts

SOLVE_ARGUMENTS = tuple(
    "method subsolver rho tol atol max_rounds time_limit constants accuracy start reference record "
    "progress callback seed rng runtime sums reduce scale throw checkpoints".split()
)
"""Keywords of ``solve`` that are no parameters of a method."""

Check = Callable[[str, Any], Any]
Sources = dict[str, tuple[Any, str]]


@dataclass(frozen=True)
class Settings:
    """What the caller of ``solve`` may say about the method."""

    method: str = "iD2A"
    subsolver: Any = "auto"
    rho: float | str = "auto"
    constants: str = "tight"
    accuracy: str = "auto"
    parameters: dict[str, Any] | None = None


class Sourced(float):
    """A parameter's value with a phrase that says where it comes from; else a float.

    Examples
    --------
    >>> value = Sourced(0.5, "tuned: best of 9 trials")
    >>> value + 1, value.source
    (1.5, 'tuned: best of 9 trials')
    """

    source: str

    def __new__(cls, value: float, source: str) -> "Sourced":
        """The value and the phrase."""
        number = super().__new__(cls, value)
        number.source = source
        return number


def number(words: str, test: Callable[[Any], bool]) -> Check:
    """A check for given numbers: ``words`` say what is expected, with ``{name}`` where it helps."""

    def check(name: str, value: Any) -> float:
        plain = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        if not plain or not test(value):
            expected = words.format(name=name)
            raise CapabilityError(f"{name} = {value!r} found; expected {expected}.")
        return float(value)

    return check


positive = number("a finite number > 0", lambda value: 0 < value < math.inf)
"""``positive("alpha", 2)`` is 2.0."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of a method: its name, and in words where its value comes from unless given.

    ``rule`` is that value, or leads from the :class:`Values` of a run to it; a :class:`Sourced` one
    brings other words. ``check(name, value)`` returns a given value as the method uses it, or
    raises a CapabilityError. Parameters that are not ``free`` are only told.
    """

    name: str
    source: str
    rule: Any = None
    check: Check = positive
    free: bool = True


class Values:
    """The parameters of one run as attributes, each given or found by its rule when first asked.

    A rule may look at ``problem``, ``network``, ``facts``, ``scales`` and every other parameter.

    Examples
    --------
    >>> import dual2 as d2
    >>> problem = d2.Problem([d2.Agent([[1.0]], d2.SquaredNorm(2.0))], d2.IndicatorPoint([1.0]))
    >>> declared = [Parameter("b", "2a", lambda v: 2 * v.a), Parameter("a", "1/L", 0.5)]
    >>> values = Values(declared, problem, d2.Network([(0, 1)]), Settings(parameters={"a": 3}))
    >>> values.b, values.table()
    (6.0, {'b': (6.0, '2a'), 'a': (3.0, 'given')})
    """

    def __init__(
        self,
        declared: Iterable[Parameter],
        problem: Problem,
        network: AnyNetwork,
        settings: Settings,
    ) -> None:
        self.problem, self.network, self.method = problem, network, settings.method
        self._declared = {parameter.name: parameter for parameter in declared}
        self.given = given_parameters(settings, [p.name for p in declared if p.free])
        self._found: Sources = {}
        self._shared: dict[Callable[[Values], Any], Any] = {}

    # Not cached properties: before Python 3.12 one lock serves all instances of a class, and
    # processes that are threads would wait for each other for ever while they agree inside it.
    @property
    def facts(self) -> Facts:
        """The scalars of the theory."""
        return self.once(_facts)

    @property
    def scales(self) -> ProblemScales:
        """The units from which rules without a theorem start."""
        return self.once(_scales)

    def once(self, function: Callable[["Values"], Any]) -> Any:
        """``function(self)``, computed when first asked for: what several rules share."""
        if function not in self._shared:
            self._shared[function] = function(self)
        return self._shared[function]

    def __getattr__(self, name: str) -> Any:
        if name not in self.__dict__.get("_declared", ()):
            raise AttributeError(name)
        if name not in self._found:
            self._found[name] = self._find(self._declared[name])
        return self._found[name][0]

    def _find(self, parameter: Parameter) -> tuple[Any, str]:
        if parameter.name in self.given:
            value = self.given[parameter.name]
            return parameter.check(parameter.name, value), getattr(value, "source", "given")
        value = parameter.rule(self) if callable(parameter.rule) else parameter.rule
        if isinstance(value, Sourced):
            return float(value), value.source
        return value, parameter.source

    def table(self) -> Sources:
        """Every parameter with where it came from, in the order of their declaration."""
        return {
            name: (_shown(getattr(self, name)), self._found[name][1]) for name in self._declared
        }


def _shown(value: Any) -> Any:
    """What a table shows: of a matrix a hash of its entries."""
    if not isinstance(value, np.ndarray):
        return value
    return f"matrix {hashlib.blake2b(value.tobytes()).hexdigest()[:16]}"


def given_parameters(settings: Settings, known: Iterable[str]) -> dict[str, Any]:
    """The caller's parameters, refused if the method has none of that name.

    ``subsolver``, ``rho``, ``constants`` and ``accuracy`` belong to iD2A and MiD2A, unless a
    method declares a parameter of that name.
    """
    given, names, default = dict(settings.parameters or {}), list(known), Settings()
    for name in ("subsolver", "rho", "constants", "accuracy"):
        value = getattr(settings, name)
        if value == getattr(default, name):
            continue
        if name not in names:
            raise CapabilityError(
                f"{name} = {value!r} found; {settings.method} has no subproblem to solve. Leave "
                f"it out, or use iD2A or MiD2A."
            )
        given[name] = value
    for name in given:
        if name not in names:
            raise unknown_parameter(settings.method, name, names)
    return given


def unknown_parameter(method: str, name: str, known: Iterable[str]) -> CapabilityError:
    """The error for a name that is no parameter of a method; perhaps it is one of ``solve``.

    Examples
    --------
    >>> print(unknown_parameter("DCPA", "max_round", ["alpha", "beta"]))
    Unknown parameter of DCPA 'max_round'. Did you mean 'max_rounds'? Known: alpha, beta; to solve:
    ...
    """
    text = unknown_name(f"parameter of {method}", name, known, SOLVE_ARGUMENTS)
    return CapabilityError(f"{text.removesuffix('.')}; to solve: {', '.join(SOLVE_ARGUMENTS)}.")


def _facts(values: Values) -> Facts:
    return gather_facts(values.problem)


def _scales(values: Values) -> ProblemScales:
    return scales(values.problem)
