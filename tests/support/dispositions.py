"""Signals as a terminal starts a program, however the tests were started.

``nohup make test`` hands SIGHUP down as ignored, a script's background job SIGINT and SIGQUIT;
some supervisors ignore SIGCHLD or block signals. Every process that a test starts inherits that.
"""

import os
import signal

SURVIVES = "TESTS_SURVIVE_HANGUP"
"""Variable that tells the workers of the tests that a hangup must not end them."""
DEFAULT = (signal.SIGTERM, signal.SIGQUIT, signal.SIGCHLD)


def restore() -> None:
    """Undo what was inherited; processes that are started from now on have the defaults.

    A handler that does nothing keeps ``nohup``'s promise for this process: others do not inherit
    it, as they would an ignored signal.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        os.environ[SURVIVES] = "1"
    if SURVIVES in os.environ:
        signal.signal(signal.SIGHUP, lambda number, frame: None)
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in DEFAULT:
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
