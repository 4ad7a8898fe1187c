"""Set up a study for many sites: a public folder that grows by certificates, a kit for each site.

The folder has public files only. Every site makes its own key and sends its certificate; the kit
that it gets back has the study, all certificates and a draft of its own file.
"""

import io
import json
import ssl
import zipfile
from collections.abc import Callable
from pathlib import Path

from dual2.errors import Dual2Error
from dual2.files import read_bytes, read_toml, refuse_existing, write_atomically
from dual2.parties.names import demand_name
from dual2.parties.study import Study
from dual2.runtime.peers.identity import (
    fingerprint,
    parse_certificate,
    read_certificate,
    validity,
)
from dual2.solving.storage.problem_folder import PUBLIC_FILES

STUDY_FILE, ADDRESSES_FILE, KITS = "study.toml", "addresses.toml", "kits"
DEFAULT_PORT = 7443
_DRAFT = """\
# Private to {name}. {edit}
name = "{name}"
study = "{study}"
key = "{name}.key"                # made here, by: dual2 certificates create {name}
certificate = "{name}.pem"
state = "state"
"""


def begin_study(folder: Path, text: str, force: bool = False) -> Path:
    """Write the study's file, without parties yet.

    Parameters
    ----------
    folder : Path
        The public folder of the study.
    text : str
        What the study does, as TOML.
    force : bool
        Whether to begin again where there is a study.
    """
    file = refuse_existing(folder / STUDY_FILE, force)
    write_atomically(folder / ADDRESSES_FILE, "# host:port of the parties that accept\n")
    return write_atomically(file, text)


def add_party(
    folder: Path, certificate: Path, name: str | None = None, address: str | None = None
) -> str:
    """Add a party by its certificate; its name.

    Parameters
    ----------
    folder : Path
        The public folder of the study.
    certificate : Path
        What the party has sent. Nothing else of the file is kept, in case it has a key as well.
    name : str, optional
        By default the common name of the certificate.
    address : str, optional
        ``host:port`` where others reach the party. Without one it dials all its neighbours.
    """
    file = folder / STUDY_FILE
    if not file.exists():
        raise Dual2Error(f"{file} is not there. First: dual2 study new {folder}")
    der = read_certificate(certificate)
    name = demand_name(name or _common_name(der, certificate), "the name of the party")
    if (wrong := validity(der)) and not wrong.startswith("ends"):
        raise Dual2Error(f"{certificate} {wrong}. Ask {name} for a new one.")
    known = read_toml(file).get("parties", [])
    for one in known:
        if name == one["name"] or fingerprint(der) == one["fingerprint"]:
            raise Dual2Error(
                f"{file} has {one['name']} already, with the certificate "
                f"{one['fingerprint'][:16]}…. A party that changes its certificate: edit its entry."
            )
    entry = f'\n[[parties]]\nname = "{name}"\ncertificate = "{name}.pem"\n'
    entry += f'fingerprint = "{fingerprint(der)}"\n'
    entry += "" if address else "accepts = false                 # it dials, nobody dials it\n"
    write_atomically(folder / f"{name}.pem", ssl.DER_cert_to_PEM_cert(der))
    if address:
        addresses = (folder / ADDRESSES_FILE).read_text(encoding="utf-8")
        line = f"{json.dumps(name)} = {json.dumps(_with_port(address))}\n"
        write_atomically(folder / ADDRESSES_FILE, addresses + line)
    write_atomically(file, file.read_text(encoding="utf-8") + entry)
    return name


def _common_name(der: bytes, file: Path) -> str:
    """Whom a certificate is for."""
    subject = parse_certificate(der).subject
    found = [one.value for one in subject if one.oid.dotted_string == "2.5.4.3"]
    if not found:
        raise Dual2Error(f"{file} has no common name. Say whose it is: --name lab")
    return str(found[0])


def _with_port(address: str) -> str:
    """An address with a port.

    Examples
    --------
    >>> _with_port("lab.example"), _with_port("lab.example:7001")
    ('lab.example:7443', 'lab.example:7001')
    """
    host, colon, port = address.rpartition(":")
    if not colon:
        return f"{address}:{DEFAULT_PORT}"
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise Dual2Error(f"--address {address!r} found; expected host:port.")
    return address


def pack_kits(study: Study, folder: Path, draft: Callable[[str], str], edit: str) -> list[Path]:
    """Write a kit for each party of a checked study; the files.

    Parameters
    ----------
    study : Study
        As its folder has it.
    folder : Path
        The public folder of the study.
    draft : callable
        What else a party's own file has, by its name: entries, or tables after an empty line.
    edit : str
        What a party has to fill in, in words.
    """
    addresses = read_toml(folder / ADDRESSES_FILE)
    public = {STUDY_FILE: read_bytes(study.file)}
    for member in study.members:
        public[f"{member.name}.pem"] = read_bytes(folder / f"{member.name}.pem")
    if study.folder != folder:
        for one in (study.folder / name for name in PUBLIC_FILES):
            if one.exists():
                public[str(one.relative_to(folder))] = read_bytes(one)
    kits = []
    for number, member in enumerate(study.members):
        links = _links(study, number, addresses)
        own = _DRAFT.format(name=member.name, study=STUDY_FILE, edit=edit)
        last = draft(member.name)
        own += links + last if last.startswith("\n[") else last + links
        files = public | {"party.toml": own.encode()}
        kits.append(write_atomically(folder / KITS / f"{member.name}.zip", _zipped(files)))
    return kits


def _links(study: Study, me: int, addresses: dict[str, str]) -> str:
    """Where a party listens, and whom it dials."""
    text = ""
    around = study.neighbours(me)
    if any(study.dials(other, me) for other in around):
        own = addresses.get(study.names[me], f":{DEFAULT_PORT}")
        host = "127.0.0.1" if own.startswith("127.0.0.1:") else "0.0.0.0"
        text += f'listen = "{host}:{own.rpartition(":")[2]}"\n'
    for other in around:
        if not study.dials(me, other):
            continue
        name = study.names[other]
        if name not in addresses:
            raise Dual2Error(
                f"{study.names[me]} has to dial {name}, whose address is not known. Add it to "
                f'{ADDRESSES_FILE}, beside the study: {name} = "host:port"'
            )
        text += f'\n[peers."{name}"]\naddress = {json.dumps(addresses[name])}\n'
    return text


def _zipped(files: dict[str, bytes]) -> bytes:
    """An archive with the same bytes for the same files."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            archive.writestr(zipfile.ZipInfo(name), files[name], zipfile.ZIP_DEFLATED)
    return buffer.getvalue()
