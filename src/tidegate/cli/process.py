"""Settings of a process that runs one command: what lets it start sooner."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from types import ModuleType

_NEW_OBJECTS = 100_000
"""Number of new objects after which Python looks for unreachable ones: a command makes many that stay."""


def collect_garbage_rarely() -> None:
    gc.set_threshold(_NEW_OBJECTS, 20, 50)


def leave_out_pandas() -> None:
    """Let pandas seem not to be installed: pyarrow imports it with the first array, and nothing else needs it."""
    if "pandas" not in sys.modules:
        sys.meta_path.insert(0, _WithoutPandas())


class _WithoutPandas:
    """Finder of modules that finds nothing, and refuses pandas."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("this command leaves out pandas", name=name)
