"""Arrays without reference counts, for kernels (:mod:`dual2.compiled`) over short rows.

Numba counts references to arrays atomically at every call and every view, which for rows of some
ten entries costs many times the arithmetic. A borrowed array has no counter: whoever holds the
original keeps it alive, here the Python caller of the kernel.
"""

from typing import Any

from numba import types
from numba.extending import intrinsic


def _borrow(typingctx: Any, arrays: Any) -> Any:
    """Clear the counters. Arrays made inside a kernel must not be lent: nobody else holds them."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kinds, members = signature.args[0], []
        for k, kind in enumerate(kinds):
            value = builder.extract_value(args[0], k)
            if isinstance(kind, types.Array):
                array = context.make_array(kind)(context, builder, value=value)
                array.meminfo = array.meminfo.type(None)
                array.parent = array.parent.type(None)
                value = array._getvalue()
            members.append(value)
        return context.make_tuple(builder, kinds, members)

    return arrays(arrays), codegen


borrow: Any = intrinsic(_borrow)
"""``borrow(arrays)``: the same tuple of arrays, without counters."""
