"""Which process of a peer is at the other end: every start of a program is an incarnation."""

from typing import Any


class Incarnations:
    """The processes of one peer that have greeted this party, the last one at the end."""

    def __init__(self) -> None:
        self._attempts: dict[str, int] = {}

    @property
    def met(self) -> bool:
        """Whether any has come."""
        return bool(self._attempts)

    def objection(self, said: dict[str, Any], present: bool) -> str | None:
        """What is wrong with a greeting that is not to replace the peer's process; None if nothing.

        "late": it was overtaken by a later one, and what it wants is no longer true. "duplicate": a
        second process of the peer, while the first is ``present``. A process that has really gone
        is silent before long: then another one is welcome, and its next attempt succeeds.
        """
        attempts, life = self._attempts, said["incarnation"]
        if not attempts or life == next(reversed(attempts)):
            return "late" if attempts and said["attempt"] <= attempts[life] else None
        if present:
            return "late" if life in attempts else "duplicate"
        return "late" if said["attempt"] <= attempts.get(life, 0) else None

    def note(self, said: dict[str, Any]) -> bool:
        """Remember the process at the other end; whether it is another one than before."""
        attempts, life = self._attempts, said["incarnation"]
        another = bool(attempts) and life not in attempts
        attempts.pop(life, None)
        attempts[life] = said["attempt"]
        return another
