"""The links, the sums and the masks of a party, as its files and the study describe them."""

import ssl
from collections.abc import Callable

from dual2.errors import Dual2Error
from dual2.parties.party import Party
from dual2.parties.study import versions_in_words
from dual2.runtime.peers.connection_manager import ConnectionManager, Place
from dual2.runtime.peers.grpc_transport import GrpcTransport
from dual2.runtime.peers.hello import SessionIdentity
from dual2.runtime.peers.identity import (
    load_key,
    parse_certificate,
    read_certificate,
    read_private,
)
from dual2.runtime.peers.journal import KEY_FILE, Journal
from dual2.runtime.peers.masks import Masks, Secret, demand_signed, message_of
from dual2.runtime.peers.parties import Parties
from dual2.runtime.peers.shared_port import server_name
from dual2.runtime.peers.tls_transport import TlsTransport, make_context
from dual2.runtime.peers.tree_sums import CHUNK_WORDS
from dual2.runtime.peers.wire_transport import WireTransport


def open_manager(party: Party, audit: Callable[..., None], p: int) -> ConnectionManager:
    """The links of a party, not yet started."""
    limit = max(8 * (CHUNK_WORDS + 64), 8 * p, 512 * len(party.study.members))
    place = Place(
        party.listen if any(one.address is None for one in party.neighbours) else None,
        open_carrier(party, limit),
    )
    study = party.study
    excluded = frozenset(one for member in study.excluded for one in member.fingerprints)
    session = SessionIdentity(study.run, study.digest, versions_in_words(), study.claims, excluded)
    return ConnectionManager(party.me, list(party.neighbours), session, place, party.timing, audit)


def open_carrier(party: Party, limit: int) -> WireTransport:
    """What the study says, with this party's key and the certificates of its neighbours."""
    members, dead = party.study.members, party.timing.dead
    pins = {one.number: members[one.number].ders for one in party.neighbours}
    if party.study.carrier == "grpc":
        own = ssl.DER_cert_to_PEM_cert(read_certificate(party.certificate)).encode()
        return GrpcTransport(read_private(party.key), own, pins, limit, dead)
    trusted = [der for ders in pins.values() for der in ders]
    trusted += [der for member in party.study.excluded for der in member.ders]  # to be turned away
    server, client = (
        make_context(party.key, party.certificate, trusted, one) for one in (True, False)
    )
    name = server_name(party.study.digest, party.study.run)
    return TlsTransport(server, client, limit, dead, name, party.port)


def make_transport(
    party: Party, manager: ConnectionManager, journal: Journal
) -> tuple[Parties, Secret]:
    """The transport of a party, its links filled with what the journal has, and its keys."""
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
    from cryptography.hazmat.primitives.hashes import SHA256

    study, key = party.study, load_key(party.key)
    if journal.has_spoken and not (party.state / KEY_FILE).exists():
        raise Dual2Error(
            f"{party.state / KEY_FILE} is missing, but words were said under its masks. Restore "
            "it; a new attempt needs a new name of the run and another state folder."
        )
    secret = Secret(
        party.state,
        message_of(study.run, study.digest, party.me),
        lambda text: key.sign(text, ECDSA(SHA256())),
    )
    return Parties(manager, journal, study.network, study.names, secret.own), secret


def agree_on_masks(party: Party, transport: Parties, secret: Secret) -> Masks:
    """Masks whose keys are signed by the certificates of the study, whoever passed them on."""
    study = party.study
    known = transport.exchange_keys(secret.entry)
    publics = {
        i: demand_signed(
            known[i],
            message_of(study.run, study.digest, i),
            [parse_certificate(der) for der in member.ders],
            member.name,
        )
        for i, member in enumerate(study.members)
        if i != party.me
    }
    return Masks(secret, party.me, publics, study.run, study.digest)
