"""Environments of rivals: made once with `venv` and pip, in a cache folder outside the project."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.support.report import say

FOLDER = "TIDEGATE_BENCH_ENVS"
"""Environment variable with the folder of the environments."""


def find_python(name: str, requirements: list[str]) -> Path | None:
    """Return the Python of an environment with these packages; None, and a word why, if it cannot be made."""
    where = _folder() / name
    stamp, wanted = where / "requirements.txt", "\n".join([sys.version, *requirements])
    python = where / "bin" / "python"
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return python
    say(f"making an environment with {', '.join(requirements)} in {where} (once)")
    shutil.rmtree(where, ignore_errors=True)
    base = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    for command in (
        [str(base) if base.exists() else sys.executable, "-m", "venv", str(where)],
        [str(python), "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check", *requirements],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            say(f"{name} is left out, its environment cannot be made: {_last_line(done.stderr)}")
            shutil.rmtree(where, ignore_errors=True)
            return None
    stamp.write_text(wanted, encoding="utf-8")
    return python


def _folder() -> Path:
    given = os.environ.get(FOLDER)
    return Path(given) if given else Path.home() / ".cache" / "tidegate-bench"


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no word why"])[-1]
