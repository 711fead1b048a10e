"""Compile the kernels of every feature before anybody waits for them.

A kernel is compiled for the types of its arguments when it is first called, and then loaded from a cache on disk. The
samples are queries over common types; whatever they do not cover is compiled when it is first needed, as always.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from hashlib import sha256
from multiprocessing import get_context
from pathlib import Path

from tidegate.physical.common.kernels.compiled import stamp_of_kernels
from tidegate.runtime.cache_folders import environment_cache
from tidegate.runtime.threads import core_count

_STREAMS = """
CREATE STREAM reading (machine INT, name STRING, value DOUBLE, number BIGINT, at TIMESTAMP)
  FROM 'r.csv' TIMESTAMP BY at;
CREATE STREAM limits (machine INT, name STRING, most DOUBLE, number BIGINT, at TIMESTAMP) FROM 'l.csv' TIMESTAMP BY at;
CREATE STREAM subscription (id STRING, name STRING, low DOUBLE, high DOUBLE, threshold BIGINT, at TIMESTAMP)
  FROM 's.csv' TIMESTAMP BY at;
CREATE STREAM item (id BIGINT, name STRING, at TIMESTAMP) FROM 'i.csv' TIMESTAMP BY at KEY (id);
CREATE STREAM sale (item BIGINT, price DOUBLE, at TIMESTAMP) FROM 'o.csv' TIMESTAMP BY at
  FOREIGN KEY (item) REFERENCES item (id) WITHIN 1 HOUR;
"""

SAMPLES: Mapping[str, str] = {
    "joins": """
        SELECT r.name, r.value, l.most FROM reading r WINDOW(RANGE 10 SECONDS), limits l WINDOW(RANGE 10 SECONDS)
        WHERE r.machine = l.machine AND r.value > l.most AND r.value + l.number < 2 * l.most""",
    "joins by texts": """
        SELECT r.value FROM reading r WINDOW(RANGE 10 SECONDS), limits l WINDOW(RANGE 10 SECONDS)
        WHERE r.name = l.name AND r.value + l.most > 100""",
    "aggregates": """
        SELECT machine, COUNT(*) AS n, SUM(value) AS total, AVG(value) AS mean, MIN(value) AS least, MAX(value) AS most,
               SUM(number) AS numbers FROM reading WINDOW(RANGE 10 SECONDS) GROUP BY machine""",
    "ordered aggregates": """
        SELECT name, FIRST(value) AS opened, LAST(value) AS closed, MEDIAN(value) AS middle,
               COUNT(DISTINCT machine) AS n
        FROM reading WINDOW(RANGE 1 MINUTE SLIDE 1 MINUTE) GROUP BY name""",
    "relations": """
        SELECT DISTINCT name FROM reading WINDOW(RANGE 10 SECONDS)
        WHERE name IN (SELECT name FROM limits WINDOW(RANGE 10 SECONDS));
        SELECT name FROM reading WINDOW(RANGE 10 SECONDS) EXCEPT SELECT name FROM limits WINDOW(RANGE 10 SECONDS)""",
    "threshold alerts": """
        CREATE ALERT hot FROM reading, limits WITHIN 10 SECONDS MATCHING machine
        WHEN reading.value - limits.most > 3""",
    "threshold alerts, every pair": """
        CREATE ALERT hot FROM reading, limits WITHIN 10 SECONDS MATCHING machine
        WHEN reading.value - limits.most > 3 EMIT ALL""",
    "subscriptions": """
        CREATE ALERTS volume FROM reading t, subscription r WHERE t.value BETWEEN r.low AND r.high
        MATCHING name WHEN TOTAL(t.number) >= r.threshold""",
    "keyed joins": """
        SELECT item.name, sale.price FROM sale WINDOW(RANGE 1 HOUR), item WINDOW(RANGE 1 HOUR)
        WHERE sale.item = item.id""",
    "similarity joins": """
        SELECT r.name, l.most FROM reading r WINDOW(RANGE 10 SECONDS), limits l WINDOW(RANGE 10 SECONDS)
        WHERE ABS(r.value - l.most) < 0.5""",
    "joins that shed": """
        SELECT r.name, l.most FROM reading r WINDOW(RANGE 10 SECONDS), limits l WINDOW(RANGE 10 SECONDS)
        WHERE r.machine = l.machine AND r.value > l.most WITH (shedding = on)""",
}
"""Queries by the feature that they use."""


def prepare_kernels() -> Iterator[str]:
    """Compile the kernels of all samples, in as many processes as there are cores; yield each feature when it is done.

    Processes, because a compilation keeps all threads of its process from compiling. What was compiled already, for
    the same sources, is left out.
    """
    done_before = _note_of_kernels()
    if done_before.is_file():
        return
    with ProcessPoolExecutor(core_count(), mp_context=get_context("spawn")) as pool:
        running = {pool.submit(prepare_sample, feature): feature for feature in SAMPLES}
        for done in as_completed(running):
            done.result()
            yield running[done]
    done_before.parent.mkdir(parents=True, exist_ok=True)
    done_before.touch()


def _note_of_kernels() -> Path:
    """Return the path of an empty file that exists if these kernels are compiled."""
    return environment_cache() / f"kernels-{sha256(repr(stamp_of_kernels()).encode()).hexdigest()[:12]}"


def prepare_sample(feature: str) -> None:
    """Compile the kernels of one sample."""
    from tidegate.language.bind.program import bind
    from tidegate.runtime.compile import compile_queries
    from tidegate.runtime.warm import warm_up

    _, graph = compile_queries(bind(_STREAMS + SAMPLES[feature]))
    warm_up(graph)
