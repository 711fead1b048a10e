"""Bad files, which do not match the declaration of their stream: each becomes one dead letter, and the run continues.

A raw batch of its own replaces the rows of a bad file, so that every runtime counts and delivers it like other dead
letters. The position after it marks the file as done, so it is not opened again, even after a restart.
"""

from __future__ import annotations

import pyarrow as pa

from tidegate.errors import BadFileError
from tidegate.physical.common.dead_letters import DEAD_LETTER, Reason

_MARK = b"tidegate.bad_file"


def bad_file_batch(bad: BadFileError) -> pa.RecordBatch:
    """Return the raw batch that represents a bad file."""
    content = pa.RecordBatch.from_pydict({"detail": [bad.one_line_text()], "path": [bad.path]})
    return content.replace_schema_metadata({_MARK: b""})


def is_bad_file(raw: pa.RecordBatch) -> bool:
    return _MARK in (raw.schema.metadata or {})


def bad_file_letter(raw: pa.RecordBatch, stream: str) -> pa.RecordBatch:
    """Return the dead letter of a bad file."""
    (content,) = raw.to_pylist()
    letter = {
        "origin": stream,
        "reason": Reason.BAD_FILE.value,
        "detail": content["detail"],
        "time": None,
        "row": None,
        "file": content["path"],
        "line": None,
    }
    return pa.RecordBatch.from_pylist([letter], schema=DEAD_LETTER)
