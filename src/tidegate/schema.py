"""Column types, their Arrow types, and schemas."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import field
from enum import Enum
from itertools import product

import pyarrow as pa

from tidegate.values import value


class Type(Enum):
    """Type of the language; the value is the Arrow type of its columns."""

    BOOLEAN = pa.bool_()
    INT = pa.int32()
    BIGINT = pa.int64()
    REAL = pa.float32()
    DOUBLE = pa.float64()
    STRING = pa.string()
    TIMESTAMP = pa.timestamp("us", tz="UTC")
    INTERVAL = pa.duration("us")
    NULL = pa.null()
    ARRAY_BOOLEAN = pa.list_(pa.bool_())
    ARRAY_INT = pa.list_(pa.int32())
    ARRAY_BIGINT = pa.list_(pa.int64())
    ARRAY_REAL = pa.list_(pa.float32())
    ARRAY_DOUBLE = pa.list_(pa.float64())
    ARRAY_STRING = pa.list_(pa.string())
    ARRAY_TIMESTAMP = pa.list_(pa.timestamp("us", tz="UTC"))
    ARRAY_INTERVAL = pa.list_(pa.duration("us"))
    MAP_INT_INT = pa.map_(pa.int32(), pa.int32())
    MAP_INT_BIGINT = pa.map_(pa.int32(), pa.int64())
    MAP_INT_DOUBLE = pa.map_(pa.int32(), pa.float64())
    MAP_BIGINT_INT = pa.map_(pa.int64(), pa.int32())
    MAP_BIGINT_BIGINT = pa.map_(pa.int64(), pa.int64())
    MAP_BIGINT_DOUBLE = pa.map_(pa.int64(), pa.float64())
    MAP_STRING_INT = pa.map_(pa.string(), pa.int32())
    MAP_STRING_BIGINT = pa.map_(pa.string(), pa.int64())
    MAP_STRING_DOUBLE = pa.map_(pa.string(), pa.float64())

    arrow: pa.DataType

    def __init__(self, arrow: pa.DataType) -> None:
        self.arrow = arrow

    @property
    def name(self) -> str:
        """Name of the type in SQL, such as ``ARRAY<INT>``."""
        word, *parts = self._name_.split("_")
        return f"{word}<{', '.join(parts)}>" if parts else word

    @property
    def is_integer(self) -> bool:
        return self in (Type.INT, Type.BIGINT)

    @property
    def is_floating(self) -> bool:
        return self in (Type.REAL, Type.DOUBLE)

    @property
    def is_numeric(self) -> bool:
        return self.is_integer or self.is_floating

    @property
    def parts(self) -> tuple[Type, ...]:
        """Type of an array's elements, or types of a map's keys and values; empty for other types."""
        return tuple(Type[word] for word in self._name_.split("_")[1:])

    @property
    def is_array(self) -> bool:
        return len(self.parts) == 1

    @property
    def is_map(self) -> bool:
        return len(self.parts) == 2

    @property
    def is_ordered(self) -> bool:
        """Return whether values can be compared by order."""
        return not self.parts

    @staticmethod
    def of_arrow(arrow: pa.DataType) -> Type | None:
        """Return the type with exactly this Arrow type, if any."""
        # Equal types may have other names for their parts, and then another hash.
        return _BY_ARROW.get(arrow) or next((t for t in Type if t.arrow == arrow), None)

    @staticmethod
    def of_parts(*parts: Type) -> Type | None:
        """Return the array of one type, or the map of two types, if the language has it."""
        return _COLLECTIONS.get(parts)

    @staticmethod
    def from_name(text: str) -> Type | None:
        """Return the type with this name, in any case, if any.

        Examples
        --------
        >>> Type.from_name("array<long>").name
        'ARRAY<BIGINT>'
        """
        written = "".join(text.upper().split())
        return TYPE_NAMES.get(written) or _COLLECTION_NAMES.get(written)


_BY_ARROW = {type_.arrow: type_ for type_ in Type}

_COLLECTIONS = {type_.parts: type_ for type_ in Type if type_.parts}

TYPE_NAMES = {
    "BOOLEAN": Type.BOOLEAN,
    "BOOL": Type.BOOLEAN,
    "INT": Type.INT,
    "INTEGER": Type.INT,
    "BIGINT": Type.BIGINT,
    "LONG": Type.BIGINT,
    "REAL": Type.REAL,
    "FLOAT": Type.REAL,
    "DOUBLE": Type.DOUBLE,
    "STRING": Type.STRING,
    "VARCHAR": Type.STRING,
    "TEXT": Type.STRING,
    "TIMESTAMP": Type.TIMESTAMP,
    "INTERVAL": Type.INTERVAL,
}
"""Names of plain types in SQL."""

_COLLECTION_NAMES = {
    **{f"ARRAY<{word}>": made for word, type_ in TYPE_NAMES.items() if (made := Type.of_parts(type_))},
    **{
        f"MAP<{key},{value}>": made
        for key, value in product(TYPE_NAMES, repeat=2)
        if (made := Type.of_parts(TYPE_NAMES[key], TYPE_NAMES[value]))
    },
}


@value
class Domain:
    """Range of the numbers in a column, from `low` to `high`, both included."""

    low: float = -math.inf
    high: float = math.inf


@value
class Field:
    name: str
    type: Type


@value
class Schema:
    """Ordered list of named, typed columns. Validity is not a column, because every element has one."""

    fields: tuple[Field, ...]
    names: tuple[str, ...] = field(init=False, repr=False, compare=False)
    arrow: pa.Schema = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Every step reads them, of every schema.
        object.__setattr__(self, "names", tuple(f.name for f in self.fields))
        object.__setattr__(self, "arrow", pa.schema([pa.field(f.name, f.type.arrow) for f in self.fields]))

    def __hash__(self) -> int:
        return hash(self.names)

    def __reduce__(self) -> tuple[type[Schema], tuple[tuple[Field, ...]]]:
        return Schema, (self.fields,)

    @staticmethod
    def of(**types: Type) -> Schema:
        return Schema(tuple(Field(name, type_) for name, type_ in types.items()))

    def type_of(self, name: str) -> Type:
        return next(f.type for f in self.fields if f.name == name)

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def __contains__(self, name: object) -> bool:
        return any(f.name == name for f in self.fields)

    def __add__(self, other: Schema) -> Schema:
        return Schema(self.fields + other.fields)
