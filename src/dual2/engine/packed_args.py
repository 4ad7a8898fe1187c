"""Arguments of kernels (:mod:`dual2.compiled`): packed once, read without reference counts.

**Borrowed arrays.** Numba counts references to arrays atomically at every call and every view. For
rows of some ten entries this costs many times the arithmetic. A borrowed array has no counter: the
caller of the kernel keeps it alive. A borrowed named tuple has a type of its own
(:class:`BorrowedStruct`) whose members are not counted. Otherwise each name for a block would be
some fifty calls for the compiler to remove.

**Packed arguments.** A call from Python is slow for another reason: Numba unboxes, types and counts
every field of a named tuple at every call. For a block with its links and a rule this costs more
than a step on short rows. :class:`PackedArgs` writes the words of a tuple (of an array: data, shape
and strides) once. The kernel gets their address, and ``borrowed`` reads the tuple back. A team
(:class:`dual2.runtime.rows.Team`) packs the tuples that it passes to a kernel, and reuses them in
the next call. A kernel shows this in its first line only: it must call ``borrowed``.
"""

import struct
import warnings
from array import array
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import typeof, types
from numba.core import cgutils
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    NativeValue,
    infer_getattr,
    intrinsic,
    lower_getattr_generic,
    models,
    register_model,
    typeof_impl,
    unbox,
)
from numba.np.arrayobj import populate_array

from dual2.compiled import inline

_WORD = ir.IntType(64)
_KINDS: dict[tuple[Any, ...], "PackedArgsType"] = {}


class PackedArgsType(types.Type):
    """Numba's type of the packed tuples of one type."""

    def __init__(self, kind: types.Type) -> None:
        self.kind = kind
        super().__init__(f"PackedArgs({kind})")


class BorrowedStruct(types.Type):
    """Numba's type of a named tuple whose members are not counted; it has their names."""

    def __init__(self, kind: types.BaseNamedTuple) -> None:
        named: Any = kind
        self.members = dict(zip(named.fields, map(_returned, named.types), strict=True))
        super().__init__(f"BorrowedStruct({kind})")


class PackedArgs:
    """A named tuple of arrays and numbers as kernels take it: by address.

    Parameters
    ----------
    given : tuple
        What is packed, kept alive by this object. From Python its fields read as before.

    Examples
    --------
    >>> from collections import namedtuple
    >>> PackedArgs(namedtuple("Pair", "x y")(1.5, np.arange(3))).y.tolist()
    [0, 1, 2]
    """

    __slots__ = ("_numba_type_", "_words", "address", "given")

    def __init__(self, given: tuple[Any, ...]) -> None:
        words: list[int] = []
        key = _write(given, words)
        if key not in _KINDS:
            _KINDS[key] = PackedArgsType(typeof(given))
        self.given, self._numba_type_, self._words = given, _KINDS[key], array("q", words)
        self.address = self._words.buffer_info()[0]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.given, name)


def _write(one: Any, words: list[int]) -> tuple[Any, ...]:
    """Add the words of a member; what decides its type in kernels."""
    if isinstance(one, np.ndarray):
        interface = one.__array_interface__
        address, frozen = interface["data"]
        words += (address, *one.shape, *one.strides)
        return interface["typestr"], one.ndim, interface["strides"] is None, frozen
    if isinstance(one, tuple):
        return type(one), *(_write(member, words) for member in one)
    real = isinstance(one, float)
    words.append(*struct.unpack("q", struct.pack("d", one))) if real else words.append(int(one))
    return (type(one),)


# -- in kernels ----------------------------------------------------------------------------------


@register_model(PackedArgsType)
class _AsAddress(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: PackedArgsType) -> None:
        super().__init__(manager, kind, _WORD)


@register_model(BorrowedStruct)
class _AsMembers(models.StructModel):
    def __init__(self, manager: Any, kind: BorrowedStruct) -> None:
        super().__init__(manager, kind, list(kind.members.items()))

    def traverse(self, builder: Any) -> list[Any]:
        """Nothing to count."""
        return []


@infer_getattr
class _Members(AttributeTemplate):
    key = BorrowedStruct

    def generic_resolve(self, kind: BorrowedStruct, name: str) -> Any:
        return kind.members.get(name)


@lower_getattr_generic(BorrowedStruct)
def _member(context: Any, builder: Any, kind: BorrowedStruct, value: Any, name: str) -> Any:
    return builder.extract_value(value, list(kind.members).index(name))


@typeof_impl.register(PackedArgs)
def _type_of_args(args: PackedArgs, _: Any) -> PackedArgsType:
    return args._numba_type_


@unbox(PackedArgsType)
def _take_address(_: Any, args: Any, context: Any) -> NativeValue:
    number = context.pyapi.object_getattr_string(args, "address")
    address = context.pyapi.long_as_longlong(number)
    context.pyapi.decref(number)
    return NativeValue(address)


def _read(context: Any, builder: Any, kind: Any, take: Callable[[], Any]) -> Any:
    """A member of a packed tuple of this type, from the words that ``take`` gives one by one."""
    if isinstance(kind, types.Array):
        made = context.make_array(kind)(context, builder)
        data, *sizes = (take() for _ in range(1 + 2 * kind.ndim))
        populate_array(
            made,
            builder.inttoptr(data, made.data.type),
            sizes[: kind.ndim],
            sizes[kind.ndim :],
            context.get_abi_sizeof(context.get_data_type(kind.dtype)),
            made.meminfo.type(None),
        )
        return made._getvalue()
    if isinstance(kind, types.BaseTuple):
        members: Any = kind
        values = [_read(context, builder, member, take) for member in members]
        return _join(context, builder, kind, values)
    if kind == types.float64:
        return builder.bitcast(take(), ir.DoubleType())
    if kind == types.boolean:
        return builder.icmp_signed("!=", take(), _WORD(0))
    if kind == types.int64:
        return take()
    raise TypeError(f"A kernel takes packed arrays, int64, float64 and bool; found {kind}.")


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
        return _join(context, builder, kind, members)
    if isinstance(kind, PackedArgsType):
        words = builder.inttoptr(value, _WORD.as_pointer())
        places = iter(range(1 << 20))
        take = lambda: builder.load(builder.gep(words, [_WORD(next(places))]))  # noqa: E731
        return _read(context, builder, kind.kind, take)
    return value


def _join(context: Any, builder: Any, kind: Any, members: list[Any]) -> Any:
    """What ``borrowed`` makes of a tuple of this type, from what it made of its members."""
    if isinstance(kind, types.BaseNamedTuple):
        return cgutils.pack_struct(builder, members)
    return context.make_tuple(builder, _returned(kind), members)


def _returned(kind: Any) -> Any:
    """The type of what ``borrowed`` makes of this one."""
    if isinstance(kind, PackedArgsType):
        return _returned(kind.kind)
    if isinstance(kind, types.BaseNamedTuple):
        return BorrowedStruct(kind)
    if isinstance(kind, types.BaseTuple):
        members: Any = kind
        return types.Tuple([_returned(member) for member in members])
    return kind


def _borrowed(typingctx: Any, arrays: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _without_counter(context, builder, signature.args[0], args[0])

    return _returned(arrays)(arrays), codegen


borrowed: Any = intrinsic(_borrowed)
"""``borrowed(arrays)``: the same array or (named) tuple of arrays, tuples within included, without
counters; of packed arguments the tuple. A kernel may ask it for what it was given; for what it
made, only if it calls :func:`keep` after the last use, since nobody else holds that."""


@inline
def keep(arrays):
    """Hold arrays up to here; 0."""
    return 0


def __getattr__(name: str) -> Any:
    """The old name of ``borrowed``, for one release."""
    if name != "unowned":
        raise AttributeError(f"module 'dual2.engine.packed_args' has no attribute {name!r}")
    message = "unowned is dual2.engine.packed_args.borrowed now; the old name goes next release."
    warnings.warn(message, DeprecationWarning, stacklevel=2)
    return borrowed
