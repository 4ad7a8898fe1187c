"""Messages by key: what an engine must do, and what a run makes of it."""

import threading
import time

import numpy as np
import pytest

import dual2 as d2
import mpi_methods
from dual2.clusters.thread_cluster import ThreadMailbox
from dual2.errors import CapabilityError, PeerError
from dual2.runtime import Inbox, Mailbox
from dual2.runtime.waiting import NeighbourTimeout


def in_threads(size, work, **options):
    """What ``work(mailbox)`` gives in each of some threads with mailboxes; errors are answers."""
    inboxes = [Inbox() for _ in range(size)]
    answers = [None] * size

    def one(rank):
        try:
            answers[rank] = work(ThreadMailbox(rank, inboxes, **options))
        except Exception as error:
            answers[rank] = error
            for inbox in inboxes:
                inbox.fail(f"rank {rank}: {error}")

    threads = [threading.Thread(target=one, args=(rank,), daemon=True) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120.0)
    assert not any(thread.is_alive() for thread in threads)
    return answers


@pytest.mark.parametrize("name", mpi_methods.ONE_OF_A_FAMILY)
@pytest.mark.parametrize("size", [2, 3])
def test_iterates_and_counts_are_those_of_one_process(name, size):
    here = mpi_methods.arrays(name, "stacked")
    found = in_threads(size, lambda mailbox: mpi_methods.arrays(name, mailbox))
    for part in found:
        assert isinstance(part, dict), part
        for key, value in part.items():
            scale = np.abs(here[key][np.isfinite(here[key])]).max(initial=0.0)
            np.testing.assert_allclose(value, here[key], 1e-10, 1e-10 * scale, err_msg=key)


def test_exact_sums_have_the_same_bits():
    here = d2.solve(mpi_methods.LASSO, mpi_methods.NETWORK, sums="exact")

    def work(mailbox):
        return d2.solve(mpi_methods.LASSO, mpi_methods.NETWORK, runtime=mailbox, sums="exact")

    for part in in_threads(3, work):
        for i, x in zip(part.owned, part.x, strict=True):
            assert np.array_equal(x, here.x[i])


def test_a_process_that_does_not_answer_is_named():
    def work(mailbox):
        if mailbox.rank == 1:
            return None
        mailbox.begin_iterations()
        return mailbox.allgather(np.ones(1), "greeting")

    quiet = in_threads(2, work, timeout=0.3)
    assert isinstance(quiet[0], NeighbourTimeout)
    assert "rank 1 did not answer for 0.3 s" in str(quiet[0])


def test_a_message_of_another_length_or_type_names_its_sender():
    def work(mailbox):
        return mailbox.allgather(np.ones(1 + mailbox.rank), "greeting")

    first, second = in_threads(2, work)
    text = str(first) + str(second)
    assert isinstance(first, PeerError) and "sent" in text and "expected" in text


def test_gather_brings_all_arrays_to_the_first():
    found = in_threads(3, lambda mailbox: mailbox.gather(np.full(2, mailbox.rank), "gather"))
    assert found[0].tolist() == [0, 0, 1, 1, 2, 2] and found[1] is None and found[2] is None


def test_what_is_sent_is_a_copy():
    inboxes = [Inbox(), Inbox()]
    first = ThreadMailbox(0, inboxes)
    own = np.ones(2)
    first.sendrecv({1: own}, {}, "agree up")
    own[:] = 7.0
    into = np.zeros(2)
    ThreadMailbox(1, inboxes).sendrecv({}, {0: into}, "agree up")
    assert into.tolist() == [1.0, 1.0]


def test_an_observer_sees_every_message():
    seen = []

    def work(mailbox):
        return d2.solve(mpi_methods.LASSO, mpi_methods.NETWORK, runtime=mailbox, method="iD2A")

    in_threads(2, work, observer=lambda kind, *rest: seen.append(kind))
    assert {"rows", "agree up", "agree down"} <= set(seen)


class TestInbox:
    def test_a_sender_that_runs_ahead_waits(self):
        inbox, put = Inbox(most=2), []

        def send():
            for k in range(3):
                inbox.put(0, f"run/{k}", np.zeros(1))
                put.append(k)

        thread = threading.Thread(target=send, daemon=True)
        thread.start()
        end = time.monotonic() + 10.0
        while len(put) < 2 and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(0.1)
        assert put == [0, 1] and not inbox.has_room(0) and inbox.has_room(1)
        inbox.take(0, "run/0", 1.0)
        thread.join(10.0)
        assert put == [0, 1, 2]

    def test_without_room_there_is_an_error(self):
        inbox = Inbox(most=1)
        inbox.put(0, "run/1", np.zeros(1))
        with pytest.raises(NeighbourTimeout, match="wait to be read"):
            inbox.put(0, "run/2", np.zeros(1), seconds=0.05)

    def test_a_failure_ends_all_waiting(self):
        inbox = Inbox()
        inbox.fail("worker 2 has failed")
        with pytest.raises(PeerError, match="worker 2 has failed"):
            inbox.take(0, "run/1", 60.0)

    def test_a_new_run_keeps_what_has_come_for_it_already(self):
        inbox = Inbox()
        inbox.put(0, "run1/rows/1", np.zeros(1))
        inbox.put(0, "run2/rows/1", np.ones(1))
        inbox.fail("over")
        inbox.begin("run2")
        assert inbox.take(0, "run2/rows/1", 1.0).tolist() == [1.0]
        with pytest.raises(NeighbourTimeout):
            inbox.take(0, "run1/rows/1", 0.0)


def test_wrong_arguments_are_named():
    with pytest.raises(CapabilityError, match="timeout"):
        ThreadMailbox(0, [Inbox()], timeout=0)
    with pytest.raises(TypeError):
        Mailbox(0, 1)  # send and take are the engine's
