"""Control values as files have them."""

from __future__ import annotations

import json
from typing import TypeVar

from tidegate.physical.common.codec import from_json, to_json

T = TypeVar("T")


def recorded(value: T) -> T:
    """What is read after the value has been written."""
    return from_json(type(value), json.loads(json.dumps(to_json(value))))
