"""Settings of a process that runs one command: what lets it start sooner."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Sequence
from types import ModuleType

START_SECONDS = 3.0
"""Time within which a command has started."""


def collect_garbage_later() -> None:
    """Let Python look for garbage only after the start, which makes many objects that stay and hardly any garbage."""
    gc.disable()
    timer = threading.Timer(START_SECONDS, _collect_new_garbage)
    timer.daemon = True
    timer.start()


def _collect_new_garbage() -> None:
    gc.freeze()
    gc.enable()


def leave_out_pandas() -> None:
    """Let pandas seem not to be installed: pyarrow imports it with the first array, and nothing else needs it."""
    if "pandas" not in sys.modules:
        sys.meta_path.insert(0, _WithoutPandas())


class _WithoutPandas:
    """Finder of modules that finds nothing, and refuses pandas."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("this command leaves out pandas", name=name)
