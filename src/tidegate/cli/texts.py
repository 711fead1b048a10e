"""Read texts of statements."""

from __future__ import annotations

import sys
from pathlib import Path

from tidegate.errors import QueryError


def read_statements(file: Path) -> str:
    """Return the text of a file, or of standard input for ``-``."""
    if str(file) == "-":
        return sys.stdin.read()
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise QueryError("Q303", f"the file {file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise QueryError("Q303", f"the file {file} is not UTF-8 text") from error
