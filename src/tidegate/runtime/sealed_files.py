"""JSON files of a checkpoint, sealed with a format number and a checksum of the content and the format.

A sealed file is one JSON object with a fixed layout, so every byte of it is checked.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from typing import Any

from tidegate.errors import DataError

FORMAT = 5
"""Format number of all files of a checkpoint. Increase it when records, state files or operator states change."""

RESTORE = "restore the file from a copy, or start from the beginning with an empty checkpoint folder"

_SEALED = re.compile(rb'\{"format": (\d{1,9}), "crc32": "([0-9a-f]{8})", "content": (.*)\}\n', re.DOTALL)
_UNSEALED = (b'{"step": ', b'{"queries": ', b'{"functions": ')
"""Beginnings of files that older versions wrote without a seal."""


def seal(content: Mapping[str, Any], format_: int = FORMAT) -> bytes:
    r"""Return the bytes of a sealed file.

    Examples
    --------
    >>> seal({"step": 3})
    b'{"format": 5, "crc32": "9469c528", "content": {"step": 3}}\n'
    """
    return _enclose(format_, json.dumps(content).encode())


def unseal(data: bytes, path: str) -> Any:
    """Return the content of a sealed file; raise an error if it is damaged or has another format."""
    if data.startswith(_UNSEALED):
        raise other_format_error(path)
    parts = _SEALED.fullmatch(data)
    if parts is None or _enclose(int(parts[1]), parts[3]) != data:
        raise damaged_file_error(path)
    if int(parts[1]) != FORMAT:
        raise other_format_error(path)
    return json.loads(parts[3])


def damaged_file_error(path: str) -> DataError:
    """Return the error for a damaged file."""
    return DataError("D302", f"the file {path} of the checkpoint is damaged", hint=RESTORE)


def other_format_error(path: str) -> DataError:
    """Return the error for a file that another version of Tidegate wrote."""
    hint = "use the version that wrote it, or start from the beginning with an empty checkpoint folder"
    message = f"the file {path} of the checkpoint was written by another version of Tidegate"
    return DataError("D307", message, hint=hint)


def unreadable_file_error(path: str, error: OSError) -> DataError:
    """Return the error for a file that exists but cannot be read."""
    message = f"the file {path} of the checkpoint cannot be read: {error}"
    return DataError("D308", message, hint="check that it is a file, and that you may read it")


def _enclose(format_: int, content: bytes) -> bytes:
    crc = zlib.crc32(content, zlib.crc32(b"%d" % format_))
    return b'{"format": %d, "crc32": "%08x", "content": %s}\n' % (format_, crc, content)
