"""The embedded runtime: all stages and buckets in this process, one step after the other."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from tidegate.connectors.source import Source
from tidegate.runtime.checkpoint import Checkpoint, Record
from tidegate.runtime.embedded.engine import Engine
from tidegate.runtime.port import DEAD_LETTERS, FINAL, Job, OnRows, Progress, clear, count_reasons, take_back_final
from tidegate.runtime.shedding import SHEDDING, shed_rows
from tidegate.runtime.state import StateStore
from tidegate.runtime.watermarks import Silence, advanced
from tidegate.runtime.work import Outbox

ROWS_PER_STEP = 250_000
IDLE_SECONDS = 0.5


class EmbeddedRun:
    """A job that runs in a thread of this process."""

    def __init__(
        self,
        job: Job,
        *,
        on_rows: OnRows,
        once: bool,
        checkpoint: str | None = None,
        rows_per_step: int = ROWS_PER_STEP,
    ) -> None:
        self.job, self.on_rows, self.once, self.rows_per_step = job, on_rows, once, rows_per_step
        self.progress = Progress()
        self.checkpoint = Checkpoint(checkpoint) if checkpoint else None
        self.positions: dict[str, Any] = {}
        self._readers: dict[str, Iterator[tuple[pa.RecordBatch, Any]]] = {}
        self.engine = Engine(job, StateStore(checkpoint) if checkpoint else None)
        self._recover()
        self._silence = Silence(job.idle_after, job.clock())
        self._stopping = threading.Event()
        # Waited for instead of the thread: a join that a signal interrupts takes the thread as ended.
        self._ended = threading.Event()
        self._error: BaseException | None = None
        threading.Thread(target=self._guarded, name="tidegate", daemon=True).start()

    def wait(self, timeout: float | None = None) -> bool:
        ended = self._ended.wait(timeout)
        if self._error is not None:
            raise self._error
        return ended

    def finish(self) -> None:
        self.once = True
        self.wait()

    def stop(self) -> None:
        self._stopping.set()
        self._ended.wait()

    def _guarded(self) -> None:
        try:
            self._loop()
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits
            self._error = error
        finally:
            self._ended.set()

    def _loop(self) -> None:
        finishing = self.once
        while not self._stopping.is_set():
            if self.once and not finishing:
                finishing = True
                # Opened anew, readers also take a last line that has no end.
                self._readers.clear()
            tables = self.job.tables_to_read(self.positions)
            again = [t for t in tables if t in self.positions]
            raw = {s: self._next(s, source) for s, source in self.job.sources.items() if not source.stream.is_table}
            raw |= {t: self._whole(t) for t in tables}
            self.positions |= tables
            self._silence.hear([s for s, batches in raw.items() if batches], self.job.clock())
            idle = self._silence.idle(self.job.clock())
            if any(raw.values()) or again or (idle and self._would_advance(idle)):
                self._step(raw, idle, again)
            elif finishing:
                self._deliver(self.engine.finish(), FINAL, 0)
                return
            else:
                self._stopping.wait(IDLE_SECONDS)

    def _step(self, raw: Mapping[str, list[pa.RecordBatch]], idle: Collection[str], again: Collection[str]) -> None:
        out, rows = self.engine.step(raw, idle, again)
        if not self.progress.steps:
            take_back_final(self.job.sinks)
        self._deliver(out, f"batch-{self.engine.step_number:08d}", rows)
        self._record()

    def _would_advance(self, idle: Collection[str]) -> bool:
        """Whether time would go on without the streams that have fallen silent."""
        marks = self.engine.watermarks
        return advanced(marks, {}, self.job.delays, idle) != marks

    def _next(self, stream: str, source: Source) -> list[pa.RecordBatch]:
        # A reader goes on where it stopped; one that has run dry is opened anew, to find new rows.
        if stream not in self._readers:
            self._readers[stream] = iter(
                source.read(
                    self.positions.get(stream),
                    self.rows_per_step,
                    columns=self.job.graph.columns(stream),
                    growing=not self.once,
                )
            )
        found = next(self._readers[stream], None)
        if found is None:
            del self._readers[stream]
            return []
        batch, self.positions[stream] = found
        return [batch]

    def _whole(self, table: str) -> list[pa.RecordBatch]:
        columns = self.job.graph.columns(table)
        return [batch for batch, _ in self.job.sources[table].read(None, self.rows_per_step, columns=columns)]

    def _deliver(self, out: Outbox, label: str, rows: int) -> None:
        outputs = [(query, batch.to_arrow()) for query, batch in out.results]
        outputs += [(DEAD_LETTERS, dead) for dead in out.dead]
        if label != FINAL and (shed := shed_rows(self.engine.orders)).num_rows:
            outputs.append((SHEDDING, shed))
        tokens = {name: sink.begin(label) for name, sink in self.job.sinks.items()}
        for part, (name, output) in enumerate(outputs):
            if name in tokens:
                self.job.sinks[name].write(label, tokens[name], f"{part:05d}", output)
            else:
                self.on_rows(name, output)
        for name, token in tokens.items():
            self.job.sinks[name].publish(label, token)
        self._count(out, rows)

    def _count(self, out: Outbox, rows: int) -> None:
        self.progress.rows_in += rows
        self.progress.steps += 1
        for query, batch in out.results:
            self.progress.count_out(query, len(batch))
        for dead in out.dead:
            self.progress.count_dead(count_reasons(dead))
        self.progress.watermarks = self.engine.watermarks
        self.progress.steering = self.engine.orders
        self.progress.note_state(self.engine.state_bytes, self.engine.state_rows, self.engine.cold_bytes)

    def _record(self) -> None:
        if self.checkpoint is None:
            return
        files = {f"{s}/{b}": v.file for (s, b), v in self.engine.state.items() if v.file}
        engine, positions = self.engine, dict(self.positions)
        record = Record(engine.step_number, engine.watermarks, files, positions, engine.arrived, engine.orders)
        self.checkpoint.write(record)

    def _last_record(self) -> Record | None:
        if self.checkpoint is None:
            return None
        self.checkpoint.claim({**self.job.identity, "buckets": self.job.buckets})
        return self.checkpoint.last()

    def _recover(self) -> None:
        record = self._last_record()
        if record is None:
            clear(self.job.sinks)
            return
        store = self.engine.store
        assert store is not None
        self.positions = dict(record.positions)
        state = {
            (int(stage), int(bucket)): store.load(int(stage), int(bucket), file)
            for (stage, bucket), file in ((key.split("/"), file) for key, file in record.state.items())
        }
        self.engine = replace(
            self.engine,
            watermarks=dict(record.watermarks),
            state=state,
            step_number=record.step,
            arrived=dict(record.arrived),
            orders=dict(record.orders),
        )
        self.progress.steering = self.engine.orders
