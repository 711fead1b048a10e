"""A class-data archive for the Java process of Spark, which then starts in about half the time.

Java loads and checks some twenty thousand classes when Spark starts. An archive has them as they are in memory. It is
made once by `tidegate prepare` (`store_classes.py`), for one Java and one Spark. Java itself ignores an archive that
does not fit.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pyspark

from tidegate.runtime.cache_folders import environment_cache

QUIET = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off", "-Xlog:class+path=off")
"""Java would warn about an archive that does not fit, and about classes that it leaves out."""


def archive_options(home: str) -> list[str]:
    """Return the options by which the Java in a home uses its archive; none if there is no archive."""
    archive = archive_path(home)
    return [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", *QUIET] if archive.is_file() else []


def archive_path(home: str) -> Path:
    """Return the path of the archive for the Java in a home and this version of Spark."""
    release = Path(home, "release")
    java = release.read_text(encoding="utf-8", errors="replace") if release.is_file() else home
    known = f"{java}\n{pyspark.__version__}\n{pyspark.__file__}"
    return environment_cache() / f"java-classes-{hashlib.sha256(known.encode()).hexdigest()[:12]}.jsa"
