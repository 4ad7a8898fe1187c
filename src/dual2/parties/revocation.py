"""Certificates that a party no longer accepts, whatever the study says.

A key that was lost or stolen is revoked by a line in a file of each party that hears of it. No
other party has to agree, and no new study is needed.
"""

import re
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from dual2.errors import Dual2Error
from dual2.files import read_text
from dual2.parties.study import Study
from dual2.runtime.peers.identity import fingerprint

AnyStudy = TypeVar("AnyStudy", bound=Study)
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")


def read_revoked(file: Path) -> frozenset[str]:
    """Fingerprints of revoked certificates: one a line, with remarks after #.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "revoked.txt"
    >>> _ = file.write_text(f"{'ab' * 32}  # the lab's key was stolen" + chr(10))
    >>> [one[:6] for one in read_revoked(file)]
    ['ababab']
    """
    found = set()
    for number, line in enumerate(read_text(file).splitlines(), 1):
        text = line.partition("#")[0].strip().lower().replace(":", "")
        if text and not _FINGERPRINT.fullmatch(text):
            raise Dual2Error(
                f"{file}, line {number}: {text[:80]!r} is no fingerprint; expected 64 hexadecimal "
                "digits, as dual2 certificates show prints them."
            )
        found |= {text} if text else set()
    return frozenset(found)


def without_revoked(study: AnyStudy, file: Path) -> AnyStudy:
    """The study with the certificates that are left; an error if a party has none."""
    revoked = read_revoked(file)
    members = []
    for member in study.members:
        ders = tuple(der for der in member.ders if fingerprint(der) not in revoked)
        if not ders:
            raise Dual2Error(
                f"The certificate of {member.name} is revoked ({file}, "
                f"{member.fingerprints[0][:16]}…). It needs a new key, and all parties a study "
                "with its new certificate."
            )
        members.append(replace(member, ders=ders))
    return replace(study, members=tuple(members))
