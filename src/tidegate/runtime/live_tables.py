"""Which stages of a live graph read which version of a table.

A table is read as a whole, by all its readers, when it has changed. A stage that is new reads it alone: the other
readers must not get its rows twice. So the readings that are known are kept under the name of the table and, for each
stage that has read it, under ``table/stage``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tidegate.runtime.reload import tables_to_read_again
from tidegate.runtime.stage_graph import StageGraph


def live_readings(
    graph: StageGraph, tables: Collection[str], versions: Mapping[str, str], known: Mapping[str, object]
) -> dict[str, str]:
    """Return what to read next: tables that have changed, for all readers, and known tables for new readers."""
    due: dict[str, str] = {}
    changed = [table for table, version in versions.items() if table in known and known[table] != version]
    again = tables_to_read_again(graph, changed, tables)
    for table, version in versions.items():
        if table in again and table in known:
            due[table] = version
        else:
            new = (stage.number for stage in graph.readers[table] if reading_of(table, stage.number) not in known)
            due |= {reading_of(table, number): version for number in new}
    return due


def readings_after(graph: StageGraph, known: Mapping[str, str], done: Mapping[str, str]) -> dict[str, str]:
    """Return what is known after some readings."""
    after = {**known, **done}
    for reading, version in done.items():
        table = table_of(reading)
        after[table] = version
        if reading == table:
            after |= {reading_of(table, stage.number): version for stage in graph.readers[table]}
    return after


def current_readings(graph: StageGraph, known: Mapping[str, str], forgotten: Collection[str]) -> dict[str, str]:
    """Return what is known without the stages that are gone and the tables that were dropped."""
    return {
        reading: version
        for reading, version in known.items()
        if table_of(reading) not in forgotten
        and (reading == table_of(reading) or int(reading.rpartition("/")[2]) in graph.numbers)
    }


def new_readers(readings: Collection[str]) -> dict[str, frozenset[int]]:
    """Return the stages that read a table alone, by table."""
    found: dict[str, frozenset[int]] = {}
    for reading in readings:
        table, slash, number = reading.rpartition("/")
        if slash:
            found[table] = found.get(table, frozenset()) | {int(number)}
    return found


def table_of(reading: str) -> str:
    """Return the table of a reading.

    Examples
    --------
    >>> table_of("item"), table_of("item/12")
    ('item', 'item')
    """
    return reading.rpartition("/")[0] or reading


def reading_of(table: str, stage: int) -> str:
    """Return the name under which the reading of a table by one stage is known."""
    return f"{table}/{stage}"
