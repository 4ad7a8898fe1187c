"""What outlives a process: the journal, the keys, the audit log; and what is refused."""

import json
import os
from dataclasses import replace

import numpy as np
import pytest

from dual2.errors import Dual2Error, PeerError, StateError
from dual2.runtime.peers import identity
from dual2.runtime.peers.audit import Audit, verify
from dual2.runtime.peers.folder import create
from dual2.runtime.peers.frames import Kind, filled, frame_of, parse_header
from dual2.runtime.peers.identity import (
    fingerprint,
    load_key,
    make_certificate,
    make_key,
    make_request,
    make_trial,
    read_certificate,
    read_private,
    validity,
    write_certificate,
)
from dual2.runtime.peers.journal import Journal
from dual2.runtime.peers.reliable_channel import ReliableChannel

RUN = bytes(16)
ABOUT = {"run": "a", "data file": "b"}
FRAME = replace(frame_of(Kind.ROWS, bytes(16), np.arange(3.0)), seq=1)


def test_a_journal_gives_back_what_was_whole(tmp_path):
    journal = Journal(tmp_path, ABOUT, resume=False)
    journal.consume([(4, FRAME)])
    journal.sync()
    assert journal.append_said(0, b"words") and not journal.append_said(0, b"words")
    journal.consume([(5, replace(FRAME, seq=2))])
    journal.sync()
    journal.close()
    with journal.file.open("r+b") as file:
        file.truncate(journal.consumed.size - 7)  # the last record was not written to its end
    again = Journal(tmp_path, ABOUT, resume=True)
    assert again.frames == {4: [FRAME]}
    assert not again.append_said(0, b"words")
    again.consume([(5, replace(FRAME, seq=2))])
    again.consume([(4, replace(FRAME, seq=2))])
    again.sync()
    again.consume([(4, replace(FRAME, seq=3))])  # never synced
    again.close()
    last = Journal(tmp_path, ABOUT, resume=True)
    assert last.frames == {4: [FRAME, replace(FRAME, seq=2)], 5: [replace(FRAME, seq=2)]}


def test_what_follows_a_torn_record_is_forgotten(tmp_path):
    """The second record reached the disk, the first did not: neither counts, also later."""
    journal = Journal(tmp_path, ABOUT, resume=False)
    begin = journal.consumed.size
    for seq in (1, 2):
        journal.consume([(4, replace(FRAME, seq=seq))])
        journal.sync()
    journal.close()
    data = bytearray(journal.file.read_bytes())
    data[begin : begin + 40] = bytes(40)
    journal.file.write_bytes(data)
    again = Journal(tmp_path, ABOUT, resume=True)
    assert again.frames == {} and again.consumed.size == begin
    again.consume([(5, FRAME)])
    again.sync()
    again.close()
    last = Journal(tmp_path, ABOUT, resume=True)
    assert last.frames == {5: [FRAME]}
    last.close()


def test_long_and_short_frames_come_back_in_their_order(tmp_path):
    journal = Journal(tmp_path, ABOUT, resume=False)
    lengths = [3, 5000, 1, 1, 4090, 0, 2, 9000, 9000, 7]
    frames = [
        replace(frame_of(Kind.ROWS, bytes(16), np.arange(float(length))), seq=1 + k)
        for k, length in enumerate(lengths)
    ]
    for frame in frames:
        journal.consume([(4, frame)])
    journal.sync()
    journal.close()
    again = Journal(tmp_path, ABOUT, resume=True)
    assert again.frames == {4: frames}
    again.close()


@pytest.mark.parametrize("length", [3, 5000])
def test_of_bare_frames_it_is_known_what_they_were(tmp_path, length):
    """What children sent is kept as a mark beside its total; both are lost, or none is."""
    draw = np.random.default_rng(0)
    sent, total = (replace(frame_of(Kind.UP, RUN, draw.random(length)), seq=1) for _ in range(2))
    journal, link = Journal(tmp_path, ABOUT, resume=False), ReliableChannel(4, "lab")
    begin, link.key = journal.consumed.size, journal.consumed.key
    came = filled(parse_header(sent.packed(), 1 << 20), bytes(sent.payload))
    assert link.accept(came)
    journal.consume([(4, came.bare()), (1, total)])
    journal.sync()
    assert journal.consumed.size < begin + 1.1 * total.length + 500
    journal.close()
    again, back = Journal(tmp_path, ABOUT, resume=True), ReliableChannel(4, "lab")
    assert again.frames[1] == [total] and not again.frames[4][0].payload
    back.key = again.consumed.key
    back.refill(again.frames[4])
    assert back.next_in == 2 and not back.accept(sent)
    with pytest.raises(PeerError, match="again with another content"):
        back.accept(replace(sent, payload=total.payload, mark=b""))
    again.close()
    with journal.file.open("r+b") as file:
        file.truncate(journal.consumed.size - 1)
    torn = Journal(tmp_path, ABOUT, resume=True)
    assert torn.frames == {}
    torn.close()


def test_what_was_said_outlives_a_lost_journal(tmp_path):
    journal = Journal(tmp_path, ABOUT, resume=False)
    journal.append_said(0, b"words")
    assert journal.said.file.stat().st_size > journal.said.size  # zeros are written ahead
    journal.close()
    journal.file.unlink()
    keys = tmp_path / "mask.key"
    keys.touch()
    for resume in (False, True):
        with pytest.raises(Dual2Error, match=r"is missing, but .* has what was said"):
            Journal(tmp_path, ABOUT, resume=resume)
    keys.unlink()  # other keys, other masks
    again = Journal(tmp_path, ABOUT, resume=False)
    assert again.append_said(0, b"others")
    again.close()


def test_a_lost_part_of_a_state_never_uses_a_mask_twice(tmp_path):
    """Without what was said nothing goes on, and keys of a deleted state are not used again."""
    journal = Journal(tmp_path, ABOUT, resume=False)
    assert journal.new
    journal.append_said(0, b"words")
    journal.close()
    said, keys = tmp_path / "said", tmp_path / "mask.key"
    keys.touch()
    kept = said.read_bytes()
    said.unlink()
    with pytest.raises(Dual2Error, match=r"said is missing, beside .*journal"):
        Journal(tmp_path, ABOUT, resume=True)
    said.write_bytes(kept)
    again = Journal(tmp_path, ABOUT, resume=True)
    assert not again.new
    again.close()
    journal.file.unlink()
    said.unlink()
    anew = Journal(tmp_path, ABOUT, resume=True)
    assert anew.new and not keys.exists()
    anew.close()


def test_without_syncs_a_state_belongs_to_one_start_of_the_machine(tmp_path, monkeypatch):
    """It outlives a killed process; after a loss of power nothing is known, and all is refused."""
    synced = []
    monkeypatch.setattr("os.fdatasync", synced.append)
    start = "dual2.runtime.peers.journal.start_of_machine"
    monkeypatch.setattr(start, lambda: "monday")
    journal = Journal(tmp_path, ABOUT, resume=False, sync=False)
    journal.append_said(0, b"words")
    journal.close()
    again = Journal(tmp_path, ABOUT, resume=True, sync=False)
    assert not again.append_said(0, b"words") and not synced
    again.close()
    with pytest.raises(Dual2Error, match="another way of keeping what was said"):
        Journal(tmp_path, ABOUT, resume=True, sync=True)
    monkeypatch.setattr(start, lambda: "tuesday")
    with pytest.raises(Dual2Error, match=r"\(since the start monday\) than now"):
        Journal(tmp_path, ABOUT, resume=True, sync=False)


def test_a_damaged_record_of_what_was_said_is_noticed(tmp_path):
    """The last one may be torn, by the death of the process; one before it never is."""
    journal = Journal(tmp_path, ABOUT, resume=False)
    begin = journal.said.size
    for index in range(4):
        journal.append_said(index, b"words")
    journal.close()
    whole = journal.said.file.read_bytes()
    record = (journal.said.size - begin) // 4
    torn = bytearray(whole)
    torn[begin + 3 * record + 20] ^= 1
    journal.said.file.write_bytes(torn)
    again = Journal(tmp_path, ABOUT, resume=True)
    assert again.append_said(3, b"others") and not again.append_said(2, b"words")
    again.close()
    damaged = bytearray(whole)
    damaged[begin + 20] ^= 1
    journal.said.file.write_bytes(damaged)
    with pytest.raises(Dual2Error, match=f"is damaged at byte {begin}"):
        Journal(tmp_path, ABOUT, resume=True)


def test_a_state_folder_is_private_with_those_above_it_that_were_missing(tmp_path):
    tmp_path.chmod(0o755)
    Journal(tmp_path / "state" / "fit", ABOUT, resume=False).close()
    rights = [(tmp_path / one).stat().st_mode & 0o777 for one in ("state/fit", "state", ".")]
    assert rights == [0o700, 0o700, 0o755]


def test_a_state_folder_of_others_is_refused(tmp_path):
    state = tmp_path / "state"
    state.mkdir()
    os.chmod(state, 0o777)
    with pytest.raises(Dual2Error, match=r"Others may write in .* chmod 700"):
        Journal(state, ABOUT, resume=False)
    os.chmod(state, 0o700)
    (tmp_path / "elsewhere").write_text("precious")
    (state / ".said.new").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StateError, match=r"said cannot be written"):
        Journal(state, ABOUT, resume=False)
    assert (tmp_path / "elsewhere").read_text() == "precious"


def test_other_words_under_the_same_mask_are_refused(tmp_path):
    journal = Journal(tmp_path, ABOUT, resume=False)
    journal.append_said(17, b"words")
    journal.close()
    again = Journal(tmp_path, ABOUT, resume=True)
    with pytest.raises(Dual2Error, match="Sum 17 was computed again with another value"):
        again.append_said(17, b"others")


def test_long_words_under_the_same_mask_are_known_again(tmp_path):
    """Under the key of the log, which outlives the process."""
    words = np.arange(5000, dtype=np.uint64)
    journal = Journal(tmp_path, ABOUT, resume=False)
    journal.append_said(17, words.data)
    journal.close()
    again = Journal(tmp_path, ABOUT, resume=True)
    assert again.said.key == journal.said.key != again.consumed.key
    assert not again.append_said(17, words.data)
    words[-1] += 1
    with pytest.raises(Dual2Error, match="Sum 17 was computed again with another value"):
        again.append_said(17, words.data)


def test_a_state_is_used_by_one_run_and_one_process(tmp_path):
    journal = Journal(tmp_path, ABOUT, resume=False)
    with pytest.raises(PeerError, match="Another process uses"):
        Journal(tmp_path, ABOUT, resume=True)
    journal.close()
    with pytest.raises(Dual2Error, match=r"did not end\. Go on with --resume"):
        Journal(tmp_path, ABOUT, resume=False)
    with pytest.raises(Dual2Error, match="another data file"):
        Journal(tmp_path, ABOUT | {"data file": "c"}, resume=True)
    journal.file.write_bytes(b"something else entirely, of some length")
    with pytest.raises(Dual2Error, match="no journal of a party"):
        Journal(tmp_path, ABOUT, resume=True)


def test_keys_that_others_may_read_are_refused(tmp_path):
    key = tmp_path / "lab.key"
    make_key(key)
    assert key.stat().st_mode & 0o777 == 0o600
    load_key(key)
    for rights in (0o640, 0o604, 0o666):
        os.chmod(key, rights)
        with pytest.raises(Dual2Error, match=f"rights {rights:04o}.*chmod 600"):
            load_key(key)
    with pytest.raises(Dual2Error, match="There is no file"):
        read_private(tmp_path / "none.key")
    key.write_text("no key")
    os.chmod(key, 0o600)
    with pytest.raises(Dual2Error, match="no private key"):
        load_key(key)
    with pytest.raises(Dual2Error, match="would be overwritten"):
        make_key(key)


def test_trial_certificates_are_valid_and_distinct(tmp_path):
    found = make_trial(tmp_path, ["lab", "bank"])
    assert found["lab"] != found["bank"] and len(found["lab"]) == 64
    der = read_certificate(tmp_path / "lab.pem")
    assert fingerprint(der) == found["lab"] and validity(der) == ""
    (tmp_path / "none.pem").write_text("nothing")
    with pytest.raises(Dual2Error, match="has no certificate"):
        read_certificate(tmp_path / "none.pem")


@pytest.mark.parametrize(
    "days, since, words", [(-1, 2, "has expired"), (5, -1, "is not yet valid"), (9, 1, "ends in 8")]
)
def test_dates_are_looked_at(tmp_path, days, since, words):
    key = make_key(tmp_path / "lab.key")
    write_certificate(tmp_path / "lab.pem", make_certificate("lab", key, None, days, since))
    assert words in validity(read_certificate(tmp_path / "lab.pem"))


def test_a_request_carries_the_name_and_the_key(tmp_path):
    from cryptography.x509 import load_pem_x509_csr

    key = make_key(tmp_path / "lab.key")
    found = load_pem_x509_csr(make_request("lab", key))
    assert found.subject.rfc4514_string() == "CN=lab" and found.public_key() == key.public_key()


def test_without_cryptography_the_message_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cryptography", None)
    with pytest.raises(Dual2Error, match=r"pip install 'dual2\[party\]'"):
        identity.load_cryptography()


def test_an_audit_log_shows_what_was_changed(tmp_path):
    file = tmp_path / "audit.jsonl"
    audit = Audit(file, "run")
    for k in range(5):
        audit("sum", index=k)
    audit.close()
    with file.open("a") as stream:
        stream.write('{"t": 1, "half a li')  # killed while it wrote
    Audit(file, "run").close()
    again = Audit(file, "run")
    again("end", status="CONVERGED")
    again.close()
    assert verify(file) == {"sum": 5, "end": 1}
    lines = file.read_text().splitlines()
    changed = json.dumps(json.loads(lines[2]) | {"index": 99})
    for broken in ([*lines[:2], changed, *lines[3:]], lines[:1] + lines[2:], lines[::-1]):
        file.write_text("\n".join(broken) + "\n")
        with pytest.raises(Dual2Error, match="the chain is broken"):
            verify(file)


def test_a_line_about_a_sum_is_what_json_makes_of_it(tmp_path):
    """It is written by hand, since it is written most often."""
    file = tmp_path / "audit.jsonl"
    audit = Audit(file, 'a "run"')
    audit("sum", index=7, shape=(22, 2), masked=True)
    audit("sum", index=8, shape=(5,), masked=False)
    audit("refused", why='says "no"' + 2000 * "x", want=3)
    audit.close()
    first, second, third = (json.loads(line) for line in file.read_text().splitlines())
    assert list(first) == ["t", "run", "event", "index", "shape", "masked", "prev"]
    assert (first["run"], first["shape"], first["masked"]) == ('a "run"', [22, 2], True)
    assert (second["index"], second["shape"], second["masked"]) == (8, [5], False)
    assert third["why"] == 'says "no"' + 991 * "x" and third["want"] == 3
    assert verify(file) == {"sum": 2, "refused": 1}


def test_what_the_system_takes_in_parts_is_written_whole(tmp_path, monkeypatch):
    right = os.write
    monkeypatch.setattr(os, "write", lambda file, data: right(file, bytes(data)[:7]))
    create(tmp_path / "file", bytes(range(100)))
    assert (tmp_path / "file").read_bytes() == bytes(range(100))
