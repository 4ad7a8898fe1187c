"""The door out of a compiled loop: Python functions called by address.

A kernel cannot hold a Python object, but it can hold an integer: the address of a C function
that ctypes made of a Python one. ``knock(address, what, who)`` calls it; operands lie in
arrays that both sides hold. The Python side never lets an exception cross the compiled frames: it
keeps it, answers 1, the kernel returns early, and :meth:`Door.check` raises it again.
"""

import ctypes
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from dual2.compiled import compiled

GRAD_F, PROX_G, APPLY, ADJOINT, PROX_H, GRAD_H, SHIP = range(7)
"""What a kernel may ask for; ``SHIP`` exchanges rows with the neighbours in other processes."""

_SIGNATURE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


@intrinsic
def _call(typingctx: Any, address: Any, what: Any, who: Any) -> Any:
    signature = types.int64(types.int64, types.int64, types.int64)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = ir.IntType(64)
        function = builder.inttoptr(args[0], ir.FunctionType(word, [word, word]).as_pointer())
        return builder.call(function, [args[1], args[2]])

    return signature, codegen


@compiled
def knock(address, what, who):
    """Call the Python side; 0 is success, anything else means: return at once."""
    return _call(address, what, who)  # pyright: ignore[reportCallIssue]


class Door:
    """Python functions reachable from a kernel by (what, who).

    Examples
    --------
    >>> door = Door()
    >>> door.open(GRAD_F, 3, lambda: print("asked"))
    >>> knock(door.address, GRAD_F, 3)
    asked
    0
    """

    def __init__(self) -> None:
        self.handlers: dict[tuple[int, int], Callable[[], object]] = {}
        self._error: BaseException | None = None
        self._trampoline = _SIGNATURE(self._answer)
        pointer = ctypes.cast(self._trampoline, ctypes.c_void_p).value
        self.address = int(pointer or 0)

    def open(self, what: int, who: int, handler: Callable[[], object]) -> None:
        """Let ``handler()`` answer ``knock(address, what, who)``."""
        self.handlers[what, who] = handler

    def _answer(self, what: int, who: int) -> int:
        if self._error is not None:
            return 1
        try:
            self.handlers[what, who]()
        except BaseException as error:
            self._error = error
            return 1
        return 0

    def check(self) -> None:
        """Raise what a handler raised inside the last kernel, if anything."""
        error, self._error = self._error, None
        if error is not None:
            raise error
