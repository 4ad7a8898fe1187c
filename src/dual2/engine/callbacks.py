"""Functions called from a compiled loop by address: a user's in Python, and the compiled proxes.

A kernel cannot hold a Python object, but it can hold an integer: the address of a C function
that ctypes made of a Python one. ``call_python(address, what, who)`` calls it; operands lie in
arrays that both sides hold. The Python side never lets an exception cross the compiled frames: it
keeps it, answers 1, the kernel returns early, and :meth:`Callbacks.check` raises it again.

What a kernel calls by name is compiled into it, and once more into every other that does. The
proxes of all kinds are much text: a block tells loops where they are, and ``call_prox`` goes there.
``call_step`` does the same for parts of a loop.
"""

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import typeof, types
from numba.core import cgutils
from numba.extending import intrinsic

from dual2.compiled import compiled

Array = np.ndarray
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
def call_python(address, what, who):
    """Call the Python side; 0 is success, anything else means: return at once."""
    return _call(address, what, who)  # pyright: ignore[reportCallIssue]


VECTOR = types.Array(types.float64, 1, "C")
"""A row, as kernels see it."""
PROX = types.none(types.int64, types.int64, types.float64, VECTOR, VECTOR, VECTOR, VECTOR)
"""Of :func:`dual2.functions.kernels.prox_block` and ``prox_separable``."""


def _call_at(context: Any, builder: Any, signature: Any, address: Any, packed: Any) -> Any:
    """Call the kernel of this signature at an address; what it returns."""
    answer, taken = signature.return_type, signature.args
    pointer = context.call_conv.get_function_type(answer, taken).as_pointer()
    function = builder.inttoptr(address, pointer)
    given = cgutils.unpack_tuple(builder, packed)
    return context.call_conv.call_function(builder, function, answer, taken, given)[1]


def _call_prox(typingctx: Any, address: Any, *args: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        _call_at(context, builder, PROX, *values)
        return context.get_dummy_value()

    return PROX.return_type(types.int64, types.StarArgTuple(PROX.args)), codegen


call_prox: Any = intrinsic(_call_prox)
"""``call_prox(address, *args)``: what ``prox_block(*args)`` does; a block has the address."""


def _call_step(typingctx: Any, address: Any, *args: Any) -> Any:
    taken = tuple(types.unliteral(one) for one in args)

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return _call_at(context, builder, types.int64(*taken), *values)

    return types.int64(types.int64, types.StarArgTuple(taken)), codegen


call_step: Any = intrinsic(_call_step)
"""``call_step(address, *args)``: a kernel that returns an integer, see :func:`address_of`.

For the parts of a loop that most problems do not need: a caller need not be compiled with them.
"""


def address_of(kernel: Any, *args: Any) -> int:
    """Where a kernel is, compiled for arguments of the types of these.

    Examples
    --------
    >>> address_of(call_python, 0, 0, 0) > 0
    True
    """
    kinds = tuple(typeof(one) for one in args)
    kernel.compile(kinds)
    found = kernel.overloads[kinds]
    return found.library.get_pointer_to_function(found.fndesc.llvm_func_name)


class Call(NamedTuple):
    """A function of ``taken`` entries of the inbox with ``given`` in answer.

    A ``prox`` takes a step besides, the inbox's last entry.
    """

    what: int
    who: int
    function: Callable[..., Array]
    taken: int
    given: int
    prox: bool = False


Calls = list[Call]


class Callbacks:
    """Python functions reachable from a kernel by (what, who).

    Parameters
    ----------
    width : int
        Length of ``inbox`` and ``outbox``, through which operands and answers pass.
    calls : list of Call
        The functions.

    Examples
    --------
    >>> callbacks = Callbacks()
    >>> callbacks.add(GRAD_F, 3, lambda: print("asked"))
    >>> call_python(callbacks.address, GRAD_F, 3)
    asked
    0
    """

    def __init__(self, width: int = 1, calls: Sequence[Call] = ()) -> None:
        self.handlers: dict[tuple[int, int], Callable[[], object]] = {}
        self.inbox, self.outbox = np.zeros(width), np.zeros(width)
        self._error: BaseException | None = None
        self._trampoline = _SIGNATURE(self._answer)
        pointer = ctypes.cast(self._trampoline, ctypes.c_void_p).value
        self.address = int(pointer or 0)
        for call in calls:
            self.handlers[call.what, call.who] = self._handler(call)

    def add(self, what: int, who: int, handler: Callable[[], object]) -> None:
        """Let ``handler()`` answer ``call_python(address, what, who)``."""
        self.handlers[what, who] = handler

    def _handler(self, call: Call) -> Callable[[], None]:
        taken, given, inbox, outbox = call.taken, call.given, self.inbox, self.outbox

        def handler() -> None:
            step = (float(inbox[-1]),) if call.prox else ()
            outbox[:given] = call.function(inbox[:taken].copy(), *step)

        return handler

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
