"""What is said about files: which one made another one late, which columns one lacks."""

from __future__ import annotations

import json

import pytest

from tidegate.runtime.data_warnings import FileFacts, FileWatch, from_report, merge_facts, to_report

SECOND = 1_000_000


def codes(watch: FileWatch, **options) -> list[str]:
    return [warning.code for warning in watch.warnings(**options)]


def test_a_report_travels_as_json_and_leaves_out_files_without_news():
    plain, furthest = FileFacts(3, latest=5, is_whole=True), FileFacts(3, latest=9)
    late, lacking = FileFacts(3, late=1, late_from=2, latest=4), FileFacts(3, latest=1, lacking=("v",), is_whole=True)
    found = {"s": {"plain": plain, "furthest": furthest, "late": late, "lacking": lacking}}
    told = from_report(json.loads(json.dumps(to_report(found))))
    assert told == {"s": {"furthest": furthest, "late": late, "lacking": lacking}}
    assert merge_facts([{"s": {"plain": plain}}, {"s": {"late": late}}]) == {"s": {"plain": plain, "late": late}}
    assert merge_facts([{"s": {"a": late}}, {"s": {"a": late}}]) == {"s": {"a": late.combine(late)}}


@pytest.mark.parametrize(("late", "expected"), [(5, []), (6, ["W310"])])
def test_a_file_is_named_if_most_of_its_rows_are_late(late, expected):
    watch = FileWatch()
    watch.add({"s": {"a": FileFacts(10, latest=100 * SECOND)}})
    watch.add({"s": {"b": FileFacts(10, late=late, late_from=7 * SECOND, latest=120 * SECOND)}})
    assert codes(watch) == expected


def test_the_file_that_was_furthest_before_is_the_cause_and_each_stream_is_warned_of_once():
    watch = FileWatch()
    watch.add({"s": {"a": FileFacts(9, latest=100 * SECOND)}})
    watch.add({"s": {"b": FileFacts(1, latest=50 * SECOND)}})
    late = FileFacts(2, late=2, late_from=40 * SECOND, latest=40 * SECOND)
    watch.add({"s": {"c": late}})
    watch.add({"s": {"d": late}})
    [warning] = watch.warnings()
    assert "2 of 2 rows of c are late, because a moved the watermark on" in warning.message
    assert warning.hint is not None
    assert warning.hint.startswith("declare DELAY 1 MINUTE or more")


def test_a_file_that_makes_its_own_rows_late_is_told_so():
    watch = FileWatch()
    watch.add({"s": {"a": FileFacts(1, latest=100 * SECOND)}})
    watch.add({"s": {"a": FileFacts(3, late=3, late_from=0, latest=50 * SECOND)}})
    [warning] = watch.warnings()
    assert "because earlier rows of the same file moved the watermark on" in warning.message
    assert "UNION ALL" not in str(warning.hint)


def test_a_column_is_lacking_if_no_part_of_a_file_has_it():
    for parts, expected in (((("v", "w"), ("v",)), ["W311"]), ((("v",), ()), []), (((), ("v",)), [])):
        watch = FileWatch()
        for number, lacking in enumerate(parts):
            watch.add({"s": {"a": FileFacts(1, lacking=lacking, is_whole=number == 0)}})
            assert codes(watch, but=["a"]) == []  # more of it may come
        assert codes(watch) == expected


def test_a_file_whose_beginning_was_read_before_is_not_said_to_lack_a_column():
    watch = FileWatch()
    watch.add({"s": {"a": FileFacts(1, lacking=("v",))}})
    assert codes(watch) == []
