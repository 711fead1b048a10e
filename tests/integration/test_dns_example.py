"""The example of DNS requests: what is promised of responses saves state, and the one that is late is not lost."""

from __future__ import annotations

import pytest
from support.paths import ROOT

from tidegate.session import Session

PROGRAM = ROOT / "examples" / "dns" / "answered.sql"


@pytest.mark.parametrize("setting", ["off", "declared", "monitored"])
def test_the_example_finds_every_response(setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    with Session(runtime="embedded") as session:
        session.sql(f"SET constraints = {setting}")
        running = session.sql(PROGRAM.read_text(encoding="utf-8"), once=True)
        assert running is not None
        answered = running.finish()
    assert answered.num_rows == 10
    assert "late.example.org" in answered["name"].to_pylist()
    assert "gone.example.org" not in answered["name"].to_pylist()
