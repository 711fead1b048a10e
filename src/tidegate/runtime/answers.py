"""What a program says of itself: its plans, and the answers to its commands."""

from __future__ import annotations

from dataclasses import replace

from tidegate.catalog.answers import answer
from tidegate.catalog.catalog import DropQuery, Explain, Program
from tidegate.runtime.compile import compile_queries
from tidegate.runtime.explain import ExplainFormat, explain_compiled


def explain_program(program: Program, shown: ExplainFormat = ExplainFormat.TEXT) -> str:
    """The plans of a program's queries, the rules that made them, and the stages they run in."""
    return explain_compiled(*compile_queries(program), shown)


def answers(program: Program) -> str:
    """What the commands of a program say."""
    said = []
    for command in program.commands:
        match command:
            case Explain(query=query):
                said.append(explain_program(replace(program, queries=(query,))))
            case DropQuery():
                pass
            case _:
                said.append(answer(command))
    return "\n\n".join(said)
