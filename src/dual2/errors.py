"""The exceptions a caller may want to catch, each also a ``ValueError``; parts of messages."""

import difflib
from collections.abc import Iterable


class Dual2Error(ValueError):
    """Base of every error that dual2 raises on purpose."""


class ProblemError(Dual2Error):
    """The problem's data are malformed or inconsistent."""


class NetworkError(Dual2Error):
    """The network is malformed: not connected, not symmetric, of the wrong size."""


class CapabilityError(Dual2Error):
    """A method was asked for something it cannot do; the message says what would work."""


class Refusal(Dual2Error):
    """Data of one party that cannot be used; ``public_message`` is for the others: no values."""

    def __init__(self, text: str, public_message: str) -> None:
        super().__init__(text)
        self.public_message = public_message


class PeerError(Dual2Error):
    """Another process is missing, or has sent what it must not; the message names it."""


class PeerRefused(PeerError):
    """Another party says that its own data cannot be used, before anything was computed."""


class PeerMissing(PeerError):
    """Parties were missing for too long; the study may allow the others to go on without them.

    Attributes
    ----------
    names : tuple of str
        The parties that this one has waited for.
    claims : tuple
        What others have signed about missing parties.
    """

    def __init__(self, text: str, names: tuple[str, ...] = (), claims: tuple = ()) -> None:
        super().__init__(text)
        self.names, self.claims = names, claims


class StateError(Dual2Error):
    """What must not be forgotten cannot be written: this process ends, the run does not."""


def counted(number: int | str, noun: str) -> str:
    """A number and what it counts, for messages and tables.

    Examples
    --------
    >>> counted(1, "run"), counted(0, "run"), counted("1", "p-vector")
    ('1 run', '0 runs', '1 p-vector')
    """
    return f"{number} {noun}" if str(number) == "1" else f"{number} {noun}s"


def unknown_name(what: str, name: str, known: Iterable[str], elsewhere: Iterable[str] = ()) -> str:
    """Sentence for an unknown name: the nearest known one, if possible an abbreviation; then all.

    Parameters
    ----------
    what : str
        The kind of thing, for instance ``"method"``.
    name : str
        What was asked for.
    known : iterable of str
        The names that exist.
    elsewhere : iterable of str
        Names that may have been meant but belong to something else.

    Examples
    --------
    >>> unknown_name("method", "iD2B", ["iD2A", "MiD2A"])
    "Unknown method 'iD2B'. Did you mean 'iD2A'? Known: iD2A, MiD2A."
    >>> unknown_name("argument", "tolerance", ["reference", "tol"])
    "Unknown argument 'tolerance'. Did you mean 'tol'? Known: reference, tol."
    """
    names = list(known)
    near = near_names(name, (*elsewhere, *names))
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"Unknown {what} {name!r}.{hint} Known: {', '.join(names)}."


def near_names(name: str, known: Iterable[str], most: int = 1) -> list[str]:
    """The known names that are most like one that is unknown; if possible abbreviations.

    Examples
    --------
    >>> near_names("stepp", ["step", "alpha", "restart"], most=2)
    ['step']
    >>> near_names("betta", ["alpha", "beta", "theta"], most=2)
    ['beta', 'theta']
    """
    lowered, asked = {k.lower(): k for k in known}, name.lower()
    cut = [k for k in lowered if len(k) > 2 and (k.startswith(asked) or asked.startswith(k))]
    near = difflib.get_close_matches(asked, cut or lowered, n=most, cutoff=0.0 if cut else 0.5)
    return [lowered[k] for k in near]
