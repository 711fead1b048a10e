"""The join of three links without windows, against the same join with windows, in this process.

Packets and constraints are those of `kmon_links`. With windows of ten minutes, and the constraints alone otherwise: a
result is then valid for ever. In exact mode, both must find all packets that went through the three links; the state in
memory has the digests of cold storage, which grow without windows. Windows of one minute show by how much.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import duckdb

from benchmarks.support.kmon_links import PROGRAM, SETTINGS, Ran, Traffic
from benchmarks.support.report import say
from benchmarks.support.spark import files
from tidegate.session import Session

WINDOWS = {"window": "RANGE 10 MINUTES", "minute": "RANGE 1 MINUTE", "windowless": "RANGE UNBOUNDED"}
MODES = ("lean", "exact")


@dataclass(frozen=True, slots=True)
class Windowless:
    """State without windows in terms of that with windows, figures of the runs, and whether results were right."""

    ratios: dict[str, float]
    figures: dict[str, float]
    equal: bool


def windowless_links(*, quick: bool) -> Windowless:
    """Return what the joins keep in memory at most."""
    traffic = Traffic(6, 10) if quick else Traffic(21, 20)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        traffic.write(folder)
        runs = {(mode, label): _run(folder, mode, label) for mode in MODES for label in WINDOWS}
        equal = all(_is_right(folder, mode, label) for mode, label in runs)
    figures = {"windowless_tuples": float(traffic.tuples)}
    for (mode, label), ran in runs.items():
        start = f"windowless_{mode}_{label}"
        figures |= {f"{start}_seconds": ran.seconds, f"{start}_state_bytes": float(ran.state)}
        figures |= {f"{start}_cold_bytes": float(ran.cold)}
    ratios = {"windowless_state_ratio": _ratio(runs, "exact", "window")}
    ratios["windowless_lean_state_ratio"] = _ratio(runs, "lean", "window")
    figures["windowless_state_vs_minute"] = _ratio(runs, "exact", "minute")
    return Windowless(ratios, figures, equal)


def _ratio(runs: dict[tuple[str, str], Ran], mode: str, label: str) -> float:
    return runs[mode, "windowless"].state / runs[mode, label].state


def _run(folder: Path, mode: str, label: str) -> Ran:
    program = PROGRAM.format(setting=SETTINGS[mode], folder=folder).replace(WINDOWS["window"], WINDOWS[label])
    with Session(runtime="embedded") as session:
        running = session.sql(
            program,
            once=True,
            out=str(folder / "out" / mode / label),
            format="parquet",
            checkpoint=str(folder / "checkpoint" / mode / label),
        )
        assert running is not None
        running.wait()
        progress = running.progress()
    seconds = sum(step.seconds for step in progress.recent_steps if step.rows)
    ran = Ran(seconds, progress.peak_state_bytes, progress.cold_bytes)
    say(f"links, {mode}, {WINDOWS[label]}: {ran}")
    return ran


def _is_right(folder: Path, mode: str, label: str) -> bool:
    """Return whether a run found the packets that the files have, with the validity that the windows give them."""
    ends = "NULL" if label == "windowless" else f"c.ts + {60 if label == 'minute' else 600} * 1000000"
    c, b, o = (files(folder / link) for link in ("c", "b", "o"))
    with duckdb.connect() as database:
        rows = files(folder / "out" / mode / label / "query_1")
        found = f"SELECT pid, size, at_b, at_o, epoch_us(valid_from), epoch_us(valid_to) FROM {rows}"
        wanted = (
            f"SELECT pid, c.size, b.ts, o.ts, greatest(c.ts, b.ts, o.ts), {ends} "
            f"FROM {c} c JOIN {b} b USING (pid) JOIN {o} o USING (pid)"
        )
        counted = f"SELECT count(*) FROM (({found} EXCEPT ALL {wanted}) UNION ALL ({wanted} EXCEPT ALL {found}))"
        wrong = database.sql(counted).fetchall()[0][0]
        have = database.sql(f"SELECT count(*) FROM ({found})").fetchall()[0][0]
    say(f"links, {mode}, {WINDOWS[label]}: {have:,} packets, {wrong:,} wrong or missing")
    return bool(wrong == 0 and have > 0)
