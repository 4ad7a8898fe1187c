"""What a message consists of: named fields, each a slice of one vector."""

from collections.abc import Mapping

import numpy as np

Array = np.ndarray


class Schema:
    """Named fields of a message, one after the other.

    Parameters
    ----------
    lengths : mapping of str to int
        Length of each field.

    Examples
    --------
    >>> schema = Schema({"product": 2, "value": 1})
    >>> schema.width, schema["value"]
    (3, slice(2, 3, None))
    >>> schema.unpack(np.array([1.0, 2.0, 3.0]))["product"].tolist()
    [1.0, 2.0]
    """

    def __init__(self, lengths: Mapping[str, int]) -> None:
        self._slices: dict[str, slice] = {}
        self.width = 0
        for name, length in lengths.items():
            self._slices[name] = slice(self.width, self.width + length)
            self.width += length

    def __getitem__(self, name: str) -> slice:
        return self._slices[name]

    def pack(self, out: Array, values: Mapping[str, Array]) -> None:
        """Write fields into the rows of ``out``; fields that are not given become 0."""
        for name, place in self._slices.items():
            value = values.get(name)
            if value is None:
                out[:, place] = 0.0
            else:
                out[:, place] = value[:, None] if value.ndim == 1 else value

    def unpack(self, total: Array) -> "Fields":
        """The fields of one message."""
        return Fields(self, total)


class Fields:
    """The fields of one message by their names; those of length 1 also as numbers."""

    def __init__(self, schema: Schema, values: Array) -> None:
        self._schema, self._values = schema, values

    def __getitem__(self, name: str) -> Array:
        return self._values[self._schema[name]]

    def number(self, name: str) -> float:
        """A field of length 1."""
        return float(self[name][0])
