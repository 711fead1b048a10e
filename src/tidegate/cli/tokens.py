"""The token of a service, from a file or the environment; never from an argument, which other users can see."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tidegate.errors import QueryError

VARIABLE = "TIDEGATE_TOKEN"
SHORTEST = 16
_TOKEN = re.compile(r"[\x21-\x7e]+")


def read_token(file: Path | None) -> str | None:
    """Return the token in a file; without a file, that of the environment, if any."""
    if file is None:
        token = os.environ.get(VARIABLE, "").strip()
        return _check_characters(token) if token else None
    try:
        token = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        said = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise QueryError("Q303", f"the file {file} cannot be read: {said}") from None
    return _check_characters(token)


def refuse_short_token(token: str | None) -> None:
    """Refuse a token that can be guessed."""
    if token is not None and len(token) < SHORTEST:
        hint = "python -c 'import secrets; print(secrets.token_urlsafe(32))' makes one"
        raise QueryError("Q512", f"the token has fewer than {SHORTEST} characters", hint=hint)


def _check_characters(token: str) -> str:
    if not _TOKEN.fullmatch(token):
        raise QueryError("Q512", "the token is empty, or has spaces or other characters that no token has")
    return token
