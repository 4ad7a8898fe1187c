"""The commands of ``dual2``, in groups; :mod:`dual2.commands.app` puts them together."""

import errno

from dual2.errors import PeerError, StateError

NOT_WRITTEN = 5
"""Exit code where the answer could not be written (it is printed)."""
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)


def exit_code(error: Exception) -> int:
    """The exit code of a command that ends with an error.

    Examples
    --------
    >>> exit_code(PeerError("lab is missing")), exit_code(OSError(errno.ENOSPC, "full"))
    (4, 5)
    """
    if isinstance(error, PeerError):
        return 4
    if isinstance(error, StateError):
        return NOT_WRITTEN
    return NOT_WRITTEN if isinstance(error, OSError) and error.errno in _NO_ROOM else 2
