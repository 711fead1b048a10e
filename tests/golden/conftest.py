"""The option that writes the expected results anew."""

from __future__ import annotations


def pytest_addoption(parser):
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write expected results from the embedded runtime, once the reference semantics agrees at every instant",
    )
