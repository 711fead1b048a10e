"""Read the arguments of a command without Typer where they are plain.

Typer reads arguments with Pydantic, whose import takes as long as most commands do. The options are still declared
for Typer, in one place. Whatever is not plain (help, a mistake, an unusual form) is left to Typer: `plain_values`
returns None.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_type_hints

from typer.models import OptionInfo

Command = Callable[..., None]

_NUMBER = re.compile(r"[0-9]{1,9}")


class _NotPlainError(Exception):
    """Raised for what Typer is to read."""


def plain_values(command: Command, words: Sequence[str], environment: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the values of a command's parameters, or None if Typer is to read them."""
    parameters = _parameters_of(command)
    try:
        texts = _texts_by_parameter(parameters, words)
        return {each.name: each.value(texts.get(each.name), environment) for each in parameters}
    except _NotPlainError:
        return None


def _texts_by_parameter(parameters: Sequence[_Parameter], words: Sequence[str]) -> dict[str, str]:
    """Return the words that belong to each parameter; a flag has an empty text."""
    found: dict[str, str] = {}
    rest = list(words)
    arguments = [each for each in parameters if not each.names]
    while rest:
        word, equals, text = rest.pop(0).partition("=")
        if word.startswith("-") and word != "-":
            taker = next((each for each in parameters if word in each.names), None)
            if taker is not None and not taker.is_flag and not equals and rest and not rest[0].startswith("-"):
                equals, text = "=", rest.pop(0)
            if taker is None or taker.is_flag == bool(equals) or (word[:2] != "--" and equals):
                raise _NotPlainError
        else:
            taker, text = next((each for each in arguments if each.name not in found), None), word + equals + text
        if taker is None or taker.name in found:
            raise _NotPlainError
        found[taker.name] = text
    return found


class _Parameter:
    """A parameter of a command, as it is declared for Typer."""

    def __init__(self, parameter: inspect.Parameter, hint: Any) -> None:
        self.name, self.default = parameter.name, parameter.default
        annotated, self.info = get_args(hint)
        self.type = next((each for each in get_args(annotated) if each is not NoneType), annotated)
        self.is_flag = self.type is bool
        self.names: tuple[str, ...] = ()
        if isinstance(self.info, OptionInfo):
            self.names = tuple(self.info.param_decls or (f"--{self.name.replace('_', '-')}",))

    def value(self, text: str | None, environment: Mapping[str, str]) -> Any:
        if text is None and isinstance(self.info.envvar, str):
            text = environment.get(self.info.envvar) or None
        if text is not None:
            return self._convert(text)
        if self.default is inspect.Parameter.empty:
            raise _NotPlainError
        return self.default

    def _convert(self, text: str) -> Any:
        if self.type in (str, Path):
            return self.type(text)
        if self.is_flag and not text:
            return True
        if self.type is int and _NUMBER.fullmatch(text) and int(text) >= (self.info.min or 0):
            return int(text)
        if issubclass(self.type, StrEnum) and text in set(self.type):
            return self.type(text)
        raise _NotPlainError


def _parameters_of(command: Command) -> list[_Parameter]:
    """Return the parameters of a command.

    Examples
    --------
    >>> from tidegate.cli.main import check
    >>> [(each.name, each.names) for each in _parameters_of(check)]
    [('query', ()), ('strict', ('--strict',))]
    """
    hints = get_type_hints(command, include_extras=True)
    return [_Parameter(each, hints[each.name]) for each in inspect.signature(command).parameters.values()]
