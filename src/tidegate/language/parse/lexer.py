"""A lexer for Lark that prepares only what a text needs.

Lark's own lexer makes one large regular expression for each set of terminals that may come next, and to compile those
of a short query takes longer than all other work on it. This one tries the terminals in the same order, one by one.
It compiles the expression of a terminal once, when the text begins like it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from copy import copy
from functools import cached_property

from lark.common import LexerConf
from lark.lexer import AbstractBasicLexer, BasicLexer, ContextualLexer, PatternStr, Scanner, TerminalDef
from lark.utils import TextSlice

_BEGINNING = re.compile(r"(?=([a-z]+)(?![?*{]))(?:[^()|\\\[]|\\.|\((?:[^()\\]|\\.|\((?:[^()\\]|\\.)*\))*\))*\Z")
"""An expression without alternatives outside of parentheses, and the letters that it begins with."""


class LazyContextualLexer(ContextualLexer):
    """Lexers by state of the parser, which are made when the parser comes to the state."""

    def __init__(
        self, conf: LexerConf, states: Mapping[int, Collection[str]], always_accept: Collection[str] = ()
    ) -> None:
        # Not `super().__init__`, which makes all lexers.
        self.conf = conf
        self.matchers = {terminal.name: TerminalMatcher(terminal) for terminal in conf.terminals}
        self.root_lexer = self.make_lexer(self.matchers)
        self.lexers = _LexersByState(self, states, frozenset(always_accept) | frozenset(conf.ignore))

    def make_lexer(self, names: Collection[str]) -> BasicLexer:
        conf = copy(self.conf)
        conf.terminals = [self.matchers[name].terminal for name in names if name in self.matchers]
        conf.skip_validation = True
        return _MatchingLexer(conf, self.matchers)


class TerminalMatcher:
    """A terminal, and the text that it begins with: the rest of the expression is not tried without it."""

    def __init__(self, terminal: TerminalDef) -> None:
        self.terminal = terminal
        pattern = terminal.pattern
        found = None if isinstance(pattern, PatternStr) else _BEGINNING.match(pattern.value)
        self.beginning = pattern.value if isinstance(pattern, PatternStr) else found[1] if found else ""

    @cached_property
    def expression(self) -> re.Pattern[str]:
        return re.compile(self.terminal.pattern.to_regexp())

    def match(self, text: str, position: int, end: int) -> re.Match[str] | None:
        begins = text[position : position + len(self.beginning)]
        # Beyond ASCII, more than two letters may be equal if their case is ignored.
        if begins.lower() != self.beginning and begins.isascii():
            return None
        return self.expression.match(text, position, end)


class _LexersByState(dict[int, AbstractBasicLexer]):
    def __init__(
        self, owner: LazyContextualLexer, states: Mapping[int, Collection[str]], always: frozenset[str]
    ) -> None:
        super().__init__()
        self.owner, self.states, self.always = owner, states, always
        self.by_names: dict[frozenset[str], BasicLexer] = {}

    def __missing__(self, state: int) -> AbstractBasicLexer:
        names = self.always | frozenset(self.states[state])
        if names not in self.by_names:
            self.by_names[names] = self.owner.make_lexer(names)
        self[state] = self.by_names[names]
        return self[state]


class _MatchingLexer(BasicLexer):
    def __init__(self, conf: LexerConf, matchers: Mapping[str, TerminalMatcher]) -> None:
        super().__init__(conf)
        self.matchers = matchers

    def _build_scanner(self) -> Scanner:
        self.callback = dict(self.user_callbacks)
        return _MatchingScanner([self.matchers[terminal.name] for terminal in self.terminals])


class _MatchingScanner(Scanner):
    def __init__(self, matchers: Sequence[TerminalMatcher]) -> None:
        self.matchers = matchers
        self.allowed_types = {matcher.terminal.name for matcher in matchers}
        self.by_letter: dict[str, list[TerminalMatcher]] = {}

    def match(self, text: TextSlice[str], pos: int) -> tuple[str, str] | None:
        for matcher in self.by_letter.get(text.text[pos]) or self._matchers_of(text.text[pos]):
            found = matcher.match(text.text, pos, text.end)
            if found is not None:
                return found.group(0), matcher.terminal.name
        return None

    def _matchers_of(self, letter: str) -> Sequence[TerminalMatcher]:
        """Return the matchers that may match where the text has this letter."""
        if not letter.isascii():
            return self.matchers
        self.by_letter[letter] = [each for each in self.matchers if each.beginning[:1] in ("", letter.lower())]
        return self.by_letter[letter]
