"""Column types and their Arrow twins."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

import pyarrow as pa


class Type(Enum):
    """The types of the language; the value is the Arrow type that columns of it have."""

    BOOLEAN = pa.bool_()
    INT = pa.int32()
    BIGINT = pa.int64()
    REAL = pa.float32()
    DOUBLE = pa.float64()
    STRING = pa.string()
    TIMESTAMP = pa.timestamp("us", tz="UTC")
    INTERVAL = pa.duration("us")
    NULL = pa.null()

    @property
    def arrow(self) -> pa.DataType:
        return self.value

    @property
    def is_integer(self) -> bool:
        return self in (Type.INT, Type.BIGINT)

    @property
    def is_floating(self) -> bool:
        return self in (Type.REAL, Type.DOUBLE)

    @property
    def is_numeric(self) -> bool:
        return self.is_integer or self.is_floating

    @staticmethod
    def of_arrow(arrow: pa.DataType) -> Type | None:
        """The type whose columns are of exactly this Arrow type, if there is one."""
        return next((t for t in Type if t.arrow == arrow), None)


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
"""How types are written in SQL."""


@dataclass(frozen=True, slots=True)
class Domain:
    """The numbers that a column can have: those from `low` to `high`, both included."""

    low: float = -math.inf
    high: float = math.inf


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class Schema:
    """Named, typed columns in order. Validity is not a column: every element has one."""

    fields: tuple[Field, ...]

    @staticmethod
    def of(**types: Type) -> Schema:
        return Schema(tuple(Field(name, type_) for name, type_ in types.items()))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.fields)

    @property
    def arrow(self) -> pa.Schema:
        return pa.schema([pa.field(f.name, f.type.arrow) for f in self.fields])

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
