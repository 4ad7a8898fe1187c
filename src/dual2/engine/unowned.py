"""Arrays without reference counts, for kernels (:mod:`dual2.compiled`) over short rows.

Numba counts references to arrays atomically at every call and every view, which for rows of some
ten entries costs many times the arithmetic. An unowned array has no counter: whoever called the
kernel keeps it alive.
"""

from typing import Any

from numba import types
from numba.extending import intrinsic

from dual2.compiled import spliced


def _without_counter(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value=value)
        array.meminfo = array.meminfo.type(None)
        array.parent = array.parent.type(None)
        return array._getvalue()
    if isinstance(kind, types.BaseTuple):
        kinds: Any = kind
        members = [
            _without_counter(context, builder, member, builder.extract_value(value, k))
            for k, member in enumerate(kinds)
        ]
        return context.make_tuple(builder, kind, members)
    return value


def _unowned(typingctx: Any, arrays: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _without_counter(context, builder, signature.args[0], args[0])

    return arrays(arrays), codegen


unowned: Any = intrinsic(_unowned)
"""``unowned(arrays)``: the same array or (named) tuple of arrays, tuples within included, without
counters. A kernel may ask it for what it was given; for what it made, only if it calls
:func:`keep` after the last use, since nobody else holds that."""


@spliced
def keep(arrays):
    """Hold arrays up to here; 0."""
    return 0
