"""A stand-in for a live session: each text is a job of its own in an embedded session."""

from __future__ import annotations

import threading

import pyarrow as pa

from tidegate.catalog.catalog import DropQuery, Program
from tidegate.language.bind.program import bind
from tidegate.live.answers import Answer, QueryStatus
from tidegate.live.feeds import FeedBoard, ResultFeed
from tidegate.runtime.job import Progress, QueryState
from tidegate.runtime.outputs import result_schema
from tidegate.session import Session


class StandIn:
    def __init__(self) -> None:
        self.session = Session(runtime="embedded", buckets=1)
        self.state, self.error = QueryState.RUNNING, None
        self.board = FeedBoard()
        self._lock = threading.Lock()
        self._statuses: dict[str, QueryStatus] = {}
        self._schemas: dict[str, pa.Schema] = {}
        self._total = Progress()

    def execute(self, text: str) -> tuple[Answer, ...]:
        with self._lock:
            return self._execute(bind(text, self.session.catalog, self.session._running_queries()), text)

    def follow(self, text: str) -> tuple[tuple[Answer, ...], ResultFeed]:
        with self._lock:
            program = bind(text, self.session.catalog, self.session._running_queries())
            (query,) = program.queries
            feed = self.board.subscribe(query.name, result_schema(query.plan.schema))
            return self._execute(program, text), feed

    def _execute(self, program: Program, text: str) -> tuple[Answer, ...]:
        shown = self.session.answer(program) if program.commands else ""
        self.session.sql(text, on_rows=self._publish)
        answers = [Answer("answered", table=pa.table({"plan": shown.splitlines()}))] if shown else []
        for command in program.commands:
            if isinstance(command, DropQuery):
                del self._statuses[command.name]
                self.board.end_query(command.name)
                answers.append(Answer(f"dropped query {command.name}", command.name))
        for query in program.queries:
            self._statuses[query.name] = QueryStatus(query.name, text, "running", None, 0)
            self._schemas[query.name] = result_schema(query.plan.schema)
            answers.append(Answer(f"query {query.name} runs", query.name, warnings=program.warnings))
        return tuple(answers) or (Answer("done"),)

    def queries(self) -> tuple[QueryStatus, ...]:
        return tuple(self._statuses.values())

    def subscribe(self, name: str) -> ResultFeed:
        return self.board.subscribe(name, self._schemas[name])

    def progress(self) -> Progress:
        for running in self.session._running:
            self._total = running.progress()
        return self._total

    def close(self) -> None:
        self.session.close()
        self.board.end_all()

    def _publish(self, name: str, rows: pa.RecordBatch) -> None:
        self.board.publish(name, rows)
