"""Who is who: certificates, their fingerprints, and keys that nobody else may read."""

import datetime
import hashlib
import os
import ssl
import stat
from pathlib import Path
from typing import Any

from dual2.errors import CapabilityError, Dual2Error
from dual2.files import read_bytes, refuse_existing
from dual2.files.reading import open_regular
from dual2.runtime.peers.folder import create

CERTIFICATE_DAYS = 90
"""Validity of trial certificates."""
WARNING_DAYS = 14
"""Days before the end of a certificate from which its owner is warned."""
_MOST = 65_536


def load_cryptography() -> Any:
    """The package ``cryptography``, or an error that says how to get it."""
    try:
        import cryptography
    except ImportError as error:
        raise CapabilityError(
            "Parties need the package cryptography. Install it with: pip install 'dual2[party]'"
        ) from error
    return cryptography


def fingerprint(der: bytes) -> str:
    """SHA-256 of a certificate in DER, as 64 hexadecimal digits."""
    return hashlib.sha256(der).hexdigest()


def read_certificate(path: Path) -> bytes:
    """The first certificate of a PEM file, in DER."""
    text = read_bytes(path, _MOST).decode("ascii", "replace")
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    if begin not in text or end not in text:
        raise Dual2Error(f"{path} has no certificate; expected PEM ({begin} …).")
    try:
        return ssl.PEM_cert_to_DER_cert(begin + text.partition(begin)[2].partition(end)[0] + end)
    except ValueError as error:
        raise Dual2Error(f"{path} has no readable certificate: {error}.") from error


def read_private(path: Path) -> bytes:
    """The content of a key's file, an error if anybody but its owner may read it.

    Rights are those of the file that was opened, whatever has its name a moment later.
    """
    try:
        with open_regular(path) as stream:
            found = os.fstat(stream.fileno())
            if found.st_mode & 0o077 or found.st_uid not in (os.getuid(), 0):
                raise Dual2Error(
                    f"The key {path} may be read by others (rights "
                    f"{stat.S_IMODE(found.st_mode):04o}, owner {found.st_uid}). Expected 0600 and "
                    f"your own: chmod 600 {path}"
                )
            return stream.read(_MOST)
    except OSError as error:
        raise Dual2Error(f"The key {path} cannot be read: {error.strerror}.") from error


def load_key(path: Path) -> Any:
    """A private key (EC P-256, PEM, no password) whose file only its owner may read."""
    load_cryptography()
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    content = read_private(path)
    try:
        key = load_pem_private_key(content, None)
    except (ValueError, TypeError) as error:
        raise Dual2Error(f"{path} is no private key in PEM without password: {error}.") from error
    if not isinstance(key, EllipticCurvePrivateKey) or not isinstance(key.curve, SECP256R1):
        raise Dual2Error(f"{path} is a key of another kind; expected ECDSA on the curve P-256.")
    return key


def parse_certificate(der: bytes) -> Any:
    """A certificate as an object of ``cryptography``."""
    load_cryptography()
    from cryptography.x509 import load_der_x509_certificate

    return load_der_x509_certificate(der)


def validity(der: bytes, now: datetime.datetime | None = None) -> str:
    """What is wrong with the dates of a certificate, or what soon will be; else nothing."""
    found = parse_certificate(der)
    now = now or datetime.datetime.now(datetime.UTC)
    if now < found.not_valid_before_utc:
        return f"is not yet valid (not before {found.not_valid_before_utc:%Y-%m-%d %H:%M} UTC)"
    if now > found.not_valid_after_utc:
        return f"has expired (not after {found.not_valid_after_utc:%Y-%m-%d})"
    days = (found.not_valid_after_utc - now).days
    return f"ends in {days} days" if days < WARNING_DAYS else ""


# -- making them ---------------------------------------------------------------------------------
def make_key(path: Path, force: bool = False) -> Any:
    """A new private key, written with the rights 0600."""
    load_cryptography()
    from cryptography.hazmat.primitives import serialization as s
    from cryptography.hazmat.primitives.asymmetric import ec

    refuse_existing(path, force)
    key = ec.generate_private_key(ec.SECP256R1())
    path.parent.mkdir(parents=True, exist_ok=True)
    content = key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption())
    create(path, content)
    return key


def make_certificate(
    name: str,
    key: Any,
    issuer: tuple[Any, Any] | None = None,
    days: float = CERTIFICATE_DAYS,
    since: float = 1,
) -> Any:
    """A certificate for ``name``, valid from ``since`` days ago for ``days``.

    ``issuer`` is the authority's certificate and key; without one it is an authority itself.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives.hashes import SHA256

    now = datetime.datetime.now(datetime.UTC)
    subject = x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer[0].subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=since))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    signer = issuer[1] if issuer else key
    known = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    return builder.add_extension(known, critical=False).sign(signer, SHA256())


def write_certificate(path: Path, certificate: Any, force: bool = False) -> str:
    """Write a certificate as PEM; its fingerprint."""
    from cryptography.hazmat.primitives.serialization import Encoding

    refuse_existing(path, force)
    path.parent.mkdir(parents=True, exist_ok=True)
    create(path, certificate.public_bytes(Encoding.PEM), 0o644)
    return fingerprint(certificate.public_bytes(Encoding.DER))


def make_trial(folder: Path, names: list[str], force: bool = False) -> dict[str, str]:
    """A trial authority whose key is thrown away, and a key and certificate for each party.

    ``folder/NAME.key`` and ``folder/NAME.pem``; answers the fingerprints by name.
    """
    load_cryptography()
    from cryptography.hazmat.primitives.asymmetric import ec

    for name in names:
        for suffix in ("key", "pem"):
            refuse_existing(folder / f"{name}.{suffix}", force)
    signer = ec.generate_private_key(ec.SECP256R1())
    authority = make_certificate("dual2 trial authority", signer)
    found = {}
    for name in names:
        key = make_key(folder / f"{name}.key", force)
        own = make_certificate(name, key, (authority, signer))
        found[name] = write_certificate(folder / f"{name}.pem", own, force)
    return found


def make_self_signed(folder: Path, name: str, days: float, force: bool = False) -> str:
    """A key, ``folder/NAME.key``, and a certificate that it has signed itself; its fingerprint.

    It is no authority. A study pins fingerprints, so nobody has to trust one.
    """
    for suffix in ("key", "pem"):
        refuse_existing(folder / f"{name}.{suffix}", force)
    key = make_key(folder / f"{name}.key", force)
    signer = make_certificate(name, key), key
    own = make_certificate(name, key, signer, days)
    return write_certificate(folder / f"{name}.pem", own, force)


def make_request(name: str, key: Any) -> bytes:
    """A request for a certificate (CSR, PEM) to one's own authority."""
    from cryptography import x509
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import Encoding

    subject = x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, name)])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    return builder.sign(key, SHA256()).public_bytes(Encoding.PEM)
