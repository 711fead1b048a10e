"""What monitors of ordered columns know, put together and asked."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tidegate.physical.keyed_join.kernels.monitor_orders import OrdersSeen, _value_columns


def lowest_to_come(seen: OrdersSeen, watermark: int, k: int) -> int | None:
    """The value below which none comes any more, if there is one and no distance is more than a k that was kept."""
    over = np.count_nonzero(seen.steps["at"] + k < watermark)
    return int(seen.steps["value"][over - 1]) if over else None


def joined_orders(several: Iterable[OrdersSeen]) -> OrdersSeen:
    """What all parts of a stream have seen together."""
    several = list(several)
    value = np.concatenate([each.steps["value"] for each in several])
    at = np.concatenate([each.steps["at"] for each in several])
    pending = [np.concatenate([each.pending[name] for each in several]) for name in ("value", "at")]
    order = np.lexsort((-value, at))
    value, at = value[order], at[order]
    greater = np.ones(len(at), np.bool_)
    greater[1:] = value[1:] > np.maximum.accumulate(value)[:-1]
    return OrdersSeen(_value_columns(value[greater], at[greater]), _value_columns(*pending))
