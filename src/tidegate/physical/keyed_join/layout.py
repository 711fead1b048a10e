"""Properties of a keyed join that follow from its edges: graph, coding of keys, and partition keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.algebra.join_graph import common_key
from tidegate.algebra.keyed_join import JoinEdge, why_unordered
from tidegate.collection_entries import identity_bytes, is_collection
from tidegate.physical.common.arrays import Ints, Mask
from tidegate.physical.common.batch import Batch
from tidegate.physical.common.kernels.hashing import hash_columns
from tidegate.physical.common.kernels.order_codes import integers, order_codes, presence
from tidegate.physical.common.operator import PartitionKeys
from tidegate.physical.keyed_join.kernels.graph import Edge, Graph
from tidegate.schema import Schema, Type


class KeyCoding(Enum):
    """Coding of a key. Whole numbers and floats keep their order, hashes do not."""

    WHOLE = "whole"
    FLOAT = "float"
    HASH = "hash"


class Key(NamedTuple):
    """Columns of one input that edges compare, and their coding."""

    columns: tuple[str, ...]
    coding: KeyCoding


@dataclass(frozen=True, slots=True)
class KeyedJoinLayout:
    """For each input, the key of each edge at it, and for each edge the first edge with the same key."""

    graph: Graph
    keys: tuple[dict[int, Key], ...]
    same: tuple[dict[int, int], ...]
    partition_keys: PartitionKeys
    unordered: tuple[str | None, ...]
    """For each edge, the reason why the order of its key cannot be used, or None."""

    def is_hashed(self, edge: int) -> bool:
        return self.keys[self.graph.edges[edge].child][edge].coding is KeyCoding.HASH

    def key_column_name(self, stream: int, edge: int) -> str:
        """Return the name of the column with the key of an edge at an input."""
        return f"key{self.same[stream][edge]}"

    def key_codes(self, stream: int, batch: Batch) -> dict[int, Ints]:
        """Return the codes of all keys of some elements, by edge."""
        distinct = {key: codes_of(key, batch) for key in dict.fromkeys(self.keys[stream].values())}
        return {edge: distinct[key] for edge, key in self.keys[stream].items()}

    def has_all_keys(self, stream: int, batch: Batch) -> Mask:
        """Return which elements have all their keys. Others equal nothing."""
        found = np.ones(len(batch), np.bool_)
        for name in {name for key in self.keys[stream].values() for name in key.columns}:
            found &= presence(batch.column(name)).view(np.bool_)
        return found


@lru_cache(maxsize=64)
def layout_of(schemas: tuple[Schema, ...], edges: tuple[JoinEdge, ...]) -> KeyedJoinLayout:
    graph = Graph(tuple(str(i) for i in range(len(schemas))), tuple(Edge(e.parent, e.child) for e in edges))
    keys: list[dict[int, Key]] = [{} for _ in schemas]
    for number, edge in enumerate(edges):
        types = [schemas[edge.parent].type_of(n) for n in edge.parent_keys]
        types += [schemas[edge.child].type_of(n) for n in edge.child_keys]
        coding = _choose_coding(types)
        keys[edge.parent][number] = Key(edge.parent_keys, coding)
        keys[edge.child][number] = Key(edge.child_keys, coding)
    same = tuple({e: min(o for o, other in own.items() if other == key) for e, key in own.items()} for own in keys)
    unordered = tuple(
        why_unordered([schemas[edge.parent].type_of(name) for name in edge.parent_keys]) for edge in edges
    )
    return KeyedJoinLayout(graph, tuple(keys), same, common_key(len(schemas), edges), unordered)


def equal_values(a: pa.Array, b: pa.Array) -> npt.NDArray[np.bool_]:
    """Return which values are equal. Neither column has NULL, and NaN equals itself."""
    same = pc.equal(identity_bytes(a), identity_bytes(b)) if is_collection(a.type) else pc.equal(a, b)
    if pa.types.is_floating(a.type):
        same = pc.or_(same, pc.and_(pc.is_nan(a), pc.is_nan(b)))
    found: npt.NDArray[np.bool_] = same.to_numpy(zero_copy_only=False)
    return found


def _choose_coding(types: Sequence[Type]) -> KeyCoding:
    if len(types) > 2 or any(each is Type.STRING or each.parts for each in types):
        return KeyCoding.HASH
    return KeyCoding.FLOAT if any(each.is_floating for each in types) else KeyCoding.WHOLE


def codes_of(key: Key, batch: Batch) -> Ints:
    """Return the codes of a key. Equal keys have equal codes; a code depends on values alone."""
    columns = [batch.column(name) for name in key.columns]
    match key.coding:
        case KeyCoding.WHOLE:
            return integers(columns[0])
        case KeyCoding.FLOAT:
            return order_codes([columns[0].cast(pa.float64())]).codes[0]
        case KeyCoding.HASH:
            return hash_columns(columns).view(np.int64)
