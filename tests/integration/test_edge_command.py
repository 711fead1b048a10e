"""`tidegate edge` as a user meets it: rows in, fewer rows out, words on standard error, exit codes that tell."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from random import Random

import pytest
from reference.brackets import optimum

PATIENCE = 120
HEADER = "machine,ts,value,note\n"
ROWS = ['a,0,2,"x, y"', "a,2,1,", "a,4,1.5,between", "a,5,0,", "a,6,3,last", "b,7,1,"]
OPTIONS = ("--time", "ts", "--value", "value", "--key", "machine", "--within", "5 us")


def command(*options: str) -> list[str]:
    return [sys.executable, "-m", "tidegate.cli.main", "edge", *options]


def surroundings() -> dict[str, str]:
    paths = os.pathsep.join(str(Path(p).absolute()) for p in sys.path if p)
    return {**os.environ, "PYTHONPATH": paths, "COLUMNS": "100"}


def edge(text: str | bytes, *options: str):
    raw = text.encode() if isinstance(text, str) else text
    done = subprocess.run(
        command(*(options or OPTIONS)),
        input=raw,
        capture_output=True,
        timeout=PATIENCE,
        env=surroundings(),
        check=False,
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def lines(rows) -> str:
    return "".join(row + "\n" for row in rows)


def test_rows_that_an_alert_needs_come_out_as_they_are_and_the_others_do_not():
    code, out, words = edge(HEADER + lines(ROWS))
    assert out == HEADER + lines([ROWS[0], ROWS[1], *ROWS[3:]])
    assert words == "kept 5 of 6 rows\n"
    assert code == 0


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        (("--within", "5 us", "--shape", "rising"), [0, 4, 5]),
        (("--within", "5 us", "--shape", "falling"), [0, 1, 3, 4, 5]),
        (("--within", "6 us", "--streams", "3"), [0, 1, 3, 4, 5]),
        (("--within", "5 us", "--streams", "3"), [0, 1, 2, 3, 4, 5]),
        (("--window", "6 us", "--boundary", "open"), [0, 1, 2, 3, 4, 5]),
        (("--window", "7 us", "--boundary", "open"), [0, 1, 3, 4, 5]),
        (("--window", "6 us", "--hold", "0 us"), [0, 1, 2, 3, 4, 5]),
    ],
)
def test_options_say_what_the_alert_is_like(options, kept):
    code, out, _ = edge(HEADER + lines(ROWS), "--time", "ts", "--value", "value", "--key", "machine", *options)
    assert out == HEADER + lines(ROWS[i] for i in kept)
    assert code == 0


def test_json_lines_are_told_by_name_and_timestamps_are_read():
    clock = "2026-01-01T00:00:{:02d}Z"
    rows = [
        {"at": clock.format(second), "celsius": celsius, "room": {"floor": 1}}
        for second, celsius in enumerate([1.5, 5, 3, 1, 5.5])
    ]
    text = lines(json.dumps(row) for row in rows)
    code, out, words = edge(text, "--time", "at", "--value", "celsius", "--within", "5 seconds", "--format", "jsonl")
    assert [json.loads(line) for line in out.splitlines()] == [rows[0], rows[1], rows[3], rows[4]]
    assert words == "kept 4 of 5 rows\n"
    assert code == 0


def test_what_comes_out_of_many_rows_is_the_optimum_in_order_of_time():
    random = Random(3)
    rows = sorted((random.randrange(40_000), random.choice("abc"), float(random.randrange(30))) for _ in range(5_000))
    text = lines(["ts,machine,value", *(f"{t},{key},{value}" for t, key, value in rows)])
    _, out, _ = edge(text, "--time", "ts", "--value", "value", "--key", "machine", "--window", "60 us", "--quiet")
    passed = [line.split(",") for line in out.splitlines()[1:]]
    assert [int(row[0]) for row in passed] == sorted(int(row[0]) for row in passed)
    for key in "abc":
        # Of a few hundred elements at a time: the definition looks at every window.
        stream = [(t, v) for t, k, v in rows if k == key and t < 2_000]
        best = optimum(stream, window=60, strict=False, above=True, below=True)
        found = sorted((int(t), float(v)) for t, k, v in passed if k == key and int(t) < 1_900)
        assert found == [e for e in best if e[0] < 1_900]


def test_rows_without_a_value_or_a_key_are_passed_on():
    rows = ["a,0,2,", "a,2,,", ",2,1.5,", "a,2,,again", ",2,1.5,again", "a,3,0,", "a,5,3,"]
    code, out, _ = edge(HEADER + lines(rows))
    assert sorted(out.splitlines()[1:]) == sorted(rows)
    assert code == 0


def test_lines_that_cannot_be_read_go_to_standard_error_with_the_reason():
    bad = ["a,1,warm,", "a,yesterday,1,", "a,,1,", "a,1", 'a,1,1,"open', f"a,{2**62},1,", "a,1,1_0,"]
    code, out, words = edge(HEADER.encode() + lines([*bad, ROWS[0]]).encode() + b"a,1,\xff,\n")
    assert out == HEADER + lines([ROWS[0]])
    assert sorted(words.splitlines()) == sorted(
        [
            'line 6: the line is not CSV (unexpected end of data): a,1,1,"open',
            "line 5: the line has 2 fields instead of 4: a,1",
            "line 10: the line is not UTF-8 text: a,1,\ufffd,",
            "line 2: 'warm' is not a number: a,1,warm,",
            "line 3: 'yesterday' is not a time: a,yesterday,1,",
            "line 4: '' is not a time: a,,1,",
            f"line 7: '{2**62}' is not a time: a,{2**62},1,",
            "line 8: '1_0' is not a number: a,1,1_0,",
            "kept 1 of 1 rows; 8 could not be read",
        ]
    )
    assert code == 3


def test_json_lines_that_cannot_be_read_are_told():
    options = ("--time", "ts", "--value", "v", "--within", "1 s", "--format", "jsonl")
    code, out, words = edge('{"ts": 1,\n[1]\n{"v": 1}\n{"ts": 1, "v": true}\n{"ts": 1, "v": NaN}\n', *options)
    assert out == '{"ts": 1, "v": NaN}\n'
    assert [line.rsplit(":", 1)[0].split(" (")[0] for line in words.splitlines()[:1]] == [
        "line 1: the line is not JSON"
    ]
    assert "line 2: the line is not a JSON object: [1]" in words
    assert "line 3: '' is not a time" in words
    assert "line 4: 'true' is not a number" in words
    assert code == 3


def test_a_byte_order_mark_empty_lines_and_line_ends_of_other_systems_do_no_harm():
    code, out, words = edge(
        b"\xef\xbb\xbfts,value\r\n1,2\r\n\r\n\n5,3", "--time", "ts", "--value", "value", "--within", "1s"
    )
    assert out == "ts,value\n1,2\n5,3\n"
    assert words == "kept 2 of 2 rows\n"
    assert code == 0


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--within", "5 parsecs"), "unknown unit of time"),
        (("--within", "5 s", "--window", "5 s"), "either --within or --window"),
        ((), "either --within or --window"),
        (("--window", "0 s"), "a window cannot be 0 microseconds long"),
    ],
)
def test_a_wrong_option_ends_with_two(options, word):
    code, out, words = edge(HEADER, "--time", "ts", "--value", "value", *options)
    assert (code, out) == (2, "")
    assert word in words


def test_a_column_that_is_not_there_is_told_with_the_one_that_was_meant():
    code, out, words = edge(HEADER + lines(ROWS), "--time", "ts", "--value", "valeu", "--within", "5 s")
    assert (code, out) == (3, "")
    assert "the header has no column 'valeu'" in words
    assert "did you mean 'value'?" in words


class Running:
    """The command, with both ends of its pipes in our hands."""

    def __init__(self, *options: str) -> None:
        pipe = subprocess.PIPE
        self.popen = subprocess.Popen(command(*options), stdin=pipe, stdout=pipe, stderr=pipe, env=surroundings())
        self.watchdog = threading.Timer(PATIENCE, self.popen.kill)

    def __enter__(self):
        self.watchdog.start()
        return self

    def __exit__(self, *_):
        self.watchdog.cancel()
        self.popen.kill()
        self.popen.wait()
        for stream in (self.popen.stdin, self.popen.stdout, self.popen.stderr):
            stream.close()

    def say(self, text: str) -> None:
        self.popen.stdin.write(text.encode())
        self.popen.stdin.flush()

    def hear(self) -> str:
        return self.popen.stdout.readline().decode()


def test_rows_come_out_while_the_input_goes_on():
    with Running(*OPTIONS) as running:
        running.say(HEADER + "a,0,1,\n")
        assert running.hear() == HEADER
        running.say("a,11,1,\n")
        assert running.hear() == "a,0,1,\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_lets_out_what_is_held_and_ends_well(number):
    with Running(*OPTIONS) as running:
        running.say(HEADER + lines(ROWS[:2]) + "a,3,7")
        assert running.hear() == HEADER
        running.popen.send_signal(number)
        assert running.popen.stdout.read().decode() == lines(ROWS[:2])
        assert running.popen.stderr.read().decode() == "kept 2 of 2 rows\n"
        assert running.popen.wait() == 0


def test_a_reader_that_has_enough_ends_the_command_without_a_complaint():
    with Running(*OPTIONS) as running:
        running.say(HEADER)
        assert running.hear() == HEADER
        running.popen.stdout.close()
        running.say(lines(f"a,{t * 100},1," for t in range(1000)))
        running.popen.stdin.close()
        assert "Traceback" not in (words := running.popen.stderr.read().decode()), words
        assert running.popen.wait() == 0
