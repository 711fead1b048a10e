"""An option of pytest that breaks one function, to see whether a test notices; no file is changed.

    ./dev test tests/unit/edge --break tidegate.edge:ThresholdFilter.flush=empty

`module:function=how` replaces the function by one that returns something wrong. It is replaced wherever modules refer
to it, once the tests are collected. `python -m support.breakage CASES` runs many of them in one process: of each case
in JSON the test, first as it is, then with the function broken.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial, wraps
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import pytest

Change = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
"""Calls a function with arguments and options, and changes its result; or does not call it."""

HOWS: Mapping[str, Change] = {
    "skipped": lambda *_: None,
    "zero": lambda *_: 0,
    "first argument": lambda _, arguments, options: [*arguments, *options.values()][0],
    "empty": lambda call, arguments, options: call(*arguments, **options)[:0],
    "reversed": lambda call, arguments, options: call(*arguments, **options)[::-1],
    "opposite": lambda call, arguments, options: _opposite(call(*arguments, **options)),
    "doubled": lambda call, arguments, options: 2 * call(*arguments, **options),
}


def _opposite(found: Any) -> Any:
    return ~found if isinstance(found, np.ndarray) else not found


class Target(NamedTuple):
    """A function, and how its result is broken."""

    module: str
    path: str
    how: str

    @classmethod
    def parse(cls, text: str) -> Target:
        place, _, how = text.partition("=")
        module, _, path = place.partition(":")
        if how not in HOWS:
            raise pytest.UsageError(f"--break {text}: '{how}' is none of {', '.join(HOWS)}")
        return cls(module, path, how)


class Breakage:
    """Breaks a function while tests run, and remembers their outcomes."""

    def __init__(self, target: Target | None = None) -> None:
        self.target = target
        self.outcomes: dict[str, str] = {}
        self._undo: list[Callable[[], None]] = []

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if self.target is not None:
            self._undo = list(broken(self.target))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the outcome of a test: failed if any of its cases fails when it is called."""
        node = report.nodeid.partition("[")[0]
        if report.when == "call" or report.outcome != "passed":
            outcome = report.outcome if report.when == "call" else f"{report.outcome} in {report.when}"
            self.outcomes[node] = max(self.outcomes.get(node, ""), outcome, key=_SERIOUS.index)

    def pytest_unconfigure(self) -> None:
        for undo in self._undo:
            undo()
        self._undo = []


_SERIOUS = ["", "passed", "skipped", "skipped in setup", "failed in teardown", "failed in setup", "failed"]


def broken(target: Target) -> Sequence[Callable[[], None]]:
    """Break a function; return what to call to make it whole again."""
    module = import_module(target.module)
    *holders, name = target.path.split(".")
    holder: Any = module
    for each in holders:
        holder = getattr(holder, each)
    original = vars(holder)[name]
    changed = _changed(original, HOWS[target.how])
    places = [(holder, name)] if holders else _references(original)
    for place, attribute in places:
        setattr(place, attribute, changed)
    return [partial(setattr, place, attribute, original) for place, attribute in places]


def _changed(original: Any, change: Change) -> Any:
    match original:
        case property():
            return property(_changed(original.fget, change))
        case cached_property():
            return property(_changed(original.func, change))
        case classmethod():
            return classmethod(_changed(original.__func__, change))

    @wraps(original)
    def wrong(*arguments: Any, **options: Any) -> Any:
        return change(original, arguments, options)

    return wrong


def _references(original: Any) -> list[tuple[Any, str]]:
    """Return all modules that refer to a function, and by which name."""
    modules = [module for module in list(sys.modules.values()) if hasattr(module, "__dict__")]
    return [(module, name) for module in modules for name, each in list(vars(module).items()) if each is original]


# ---- as an option: tests/conftest.py has both hooks


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--break", dest="broken_function", metavar="MODULE:FUNCTION=HOW", help="break a function")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("broken_function", None):
        config.pluginmanager.register(Breakage(Target.parse(config.getoption("broken_function"))), "breakage")


# ---- many in one process


def outcome_of(nodes: Sequence[str], target: Target | None = None) -> dict[str, str]:
    """Run tests in this process, and return their outcomes."""
    breakage = Breakage(target)
    pytest.main([*nodes, "-q", "-x", "--no-header", "-p", "no:cacheprovider"] if target else [*nodes, "-q"], [breakage])
    return breakage.outcomes


def main(cases: Sequence[Mapping[str, str]]) -> None:
    """Print, as one line of JSON at the end, the outcomes of all cases."""
    whole = outcome_of(sorted({case["test"] for case in cases}))
    found = [outcome_of([case["test"]], Target.parse(case["break"])).get(case["test"]) for case in cases]
    sys.stdout.write("\n" + json.dumps({"whole": whole, "broken": found}) + "\n")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
