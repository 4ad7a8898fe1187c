"""What becomes of a run whose parties are missing: it goes on without them, if the study allows it.

A neighbour that has waited in vain signs a claim. Claims spread with the news that the run has
ended, and with greetings. Whoever has verified one begins again, as the problem of the other
parties, with new keys in a folder of its own. A mask of the run before is never taken off: words
that were said in it stay random, also those of a party that comes back.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from dual2.errors import Dual2Error, NetworkError, PeerError, PeerMissing
from dual2.files import read_json
from dual2.parties.party import Party
from dual2.parties.study import Study
from dual2.runtime.peers.claims import Claim, is_signed, make_claim, merge_claims, parse_claims
from dual2.runtime.peers.folder import create, make_private
from dual2.runtime.peers.identity import load_key, parse_certificate

T = TypeVar("T")
ABSENT = "absent.json"
"""Where a party keeps the claims that it has accepted, in its state folder."""


class Absences:
    """The parties without which a run goes on, as one party knows them; kept on its disk.

    Parameters
    ----------
    party : Party
        As its file describes it, with all parties of the study.

    Attributes
    ----------
    claims : tuple of Claim
        One about each missing party, all verified.
    """

    def __init__(self, party: Party) -> None:
        self._party, self._file = party, party.state / ABSENT
        self.claims = _read_claims(self._file) if self._file.exists() else ()

    @property
    def names(self) -> list[str]:
        """The missing parties."""
        return [one.absent for one in self.claims]

    @property
    def allowed(self) -> bool:
        """Whether the study has a threshold."""
        return self._party.study.needed < len(self._party.study.members)

    def present(self) -> Party:
        """The party in the run of those that are not missing."""
        return without(self._party, self.claims)

    def claim(self, error: PeerMissing) -> tuple[Claim, ...]:
        """Sign that parties are missing, before anybody is told; an error if they are needed."""
        key = load_key(self._party.key)

        def sign(text: bytes) -> bytes:
            from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
            from cryptography.hazmat.primitives.hashes import SHA256

            return key.sign(text, ECDSA(SHA256()))

        run, own = self._party.study.run, self._party.name
        self.accept([make_claim(sign, run, own, name) for name in error.names], str(error))
        return self.claims

    def accept(self, claims: Sequence[Claim], why: str) -> None:
        """Go on without the parties of some claims; an error if that cannot be, ``why`` first."""
        for claim in claims:
            verify_claim(self._party.study, claim)
        merged = merge_claims(self.claims, claims)
        if merged == self.claims:
            return
        demand_possible(self._party, [one.absent for one in merged], why)
        make_private(self._party.state)
        create(self._file, json.dumps([one.packed() for one in merged]).encode())
        self.claims = merged


def _read_claims(file: Path) -> tuple[Claim, ...]:
    """The claims that were accepted before."""
    try:
        return parse_claims(read_json(file))
    except ValueError as error:
        raise Dual2Error(f"{file} is damaged: {error}. Restore it.") from error


def verify_claim(study: Study, claim: Claim) -> None:
    """An error unless a neighbour of the missing party has signed the claim for this run."""
    names = study.names
    known = claim.absent in names and claim.claimer in names
    if known and names.index(claim.claimer) in study.neighbours(names.index(claim.absent)):
        ders = study.members[names.index(claim.claimer)].ders
        if is_signed(claim, study.run, [parse_certificate(der) for der in ders]):
            return
    raise PeerError(
        f"A claim that {claim.absent[:64]} is missing is not signed by one of its neighbours: "
        "somebody on the way has made it up. State is kept."
    )


def demand_possible(party: Party, absent: Sequence[str], why: str) -> None:
    """An error if the run cannot go on without some parties."""
    study = party.study
    left = len(study.members) - len(absent)
    if party.name in absent:
        raise PeerError(
            f"The other parties go on without {party.name}, which was missing for too long. Their "
            "answer is that of the problem without it. State is kept."
        )
    if left < study.needed:
        raise PeerError(
            f"{why} {', '.join(absent)} missing: {left} of {len(study.members)} parties are left, "
            f"{study.needed} are needed (threshold)."
        )
    try:
        study.without(absent)
    except NetworkError as error:
        raise PeerError(f"{why} Without {', '.join(absent)}: {error}") from error


def without(party: Party, claims: tuple[Claim, ...]) -> Party:
    """A party in the run of the others, with a state folder for it."""
    if not claims:
        return party
    names = [one.absent for one in claims]
    study = party.study.without(names, claims)
    numbers = [party.study.names.index(name) for name in names]
    neighbours = tuple(
        replace(one, number=study.names.index(one.name))
        for one in party.neighbours
        if one.name not in names
    )
    state = party.state / f"without-{'-'.join(map(str, sorted(numbers)))}"
    me = study.names.index(party.name)
    return replace(party, study=study, me=me, neighbours=neighbours, state=state)


def go_on_without_missing(
    party: Party,
    attempt: Callable[[Party, Absences, bool], T],
    resume: bool,
    report: Callable[[str], None],
) -> T:
    """What an attempt answers; it is made again, without missing parties, as the study allows.

    Parameters
    ----------
    party : Party
        As its file describes it.
    attempt : callable
        Takes the party, what is known of missing ones, and whether to resume. It raises
        :class:`PeerMissing` with claims if it has to be made again.
    resume : bool
        Whether to go on with what the state folder has.
    report : callable
        Told without whom it goes on.
    """
    absences = Absences(party)
    if absences.claims and not resume:
        raise Dual2Error(
            f"{party.state} has the state of a run that did not end. Go on with --resume; a new "
            "attempt needs a new name of the run (run = …) in the study and another state folder."
        )
    while True:
        before = absences.claims
        if before:
            report(f"Going on without {', '.join(absences.names)}: {_witnesses(before)}.")
        try:
            return attempt(absences.present(), absences, resume)
        except PeerMissing as error:
            absences.accept(error.claims, str(error))
            if absences.claims == before:
                raise  # nobody who is not known to be missing
        resume = True


def _witnesses(claims: Sequence[Claim]) -> str:
    """Who has signed what."""
    return ", ".join(f"{one.claimer} has waited for {one.absent} in vain" for one in claims)
