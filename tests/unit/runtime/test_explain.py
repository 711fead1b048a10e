"""What EXPLAIN shows, as text and for drawing."""

from __future__ import annotations

from pathlib import Path

import pytest
from inline_snapshot import snapshot
from typer.testing import CliRunner

from tidegate.cli.main import app
from tidegate.language.bind.program import bind
from tidegate.runtime.commands import explain_program
from tidegate.runtime.diagram import Diagram, Form, to_dot, to_mermaid
from tidegate.runtime.explain_format import ExplainFormat

PROGRAM = """
CREATE STREAM bid (item INT, price DOUBLE, at BIGINT) FROM 'bid.csv' TIMESTAMP BY at;
SELECT item, COUNT(*) AS n FROM bid WINDOW(RANGE 10) WHERE price > 2 GROUP BY item;
SELECT b.item AS i, COUNT(*) AS num FROM bid b WINDOW(RANGE 10) WHERE b.price > 2 GROUP BY b.item;
"""


GOLDEN = Path(__file__).parent / "explain"


@pytest.mark.parametrize("form", ExplainFormat)
def test_plans_rules_and_stages_are_shown_as_recorded(form: ExplainFormat) -> None:
    recorded = (GOLDEN / f"program.{form.value}").read_text(encoding="utf-8")
    assert explain_program(bind(PROGRAM), form) + "\n" == recorded


@pytest.mark.parametrize(("form", "start"), [("text", "query query_1"), ("mermaid", "flowchart"), ("dot", "digraph")])
def test_the_command_takes_the_format(form: str, start: str, tmp_path: Path) -> None:
    (tmp_path / "query.sql").write_text(PROGRAM)
    ended = CliRunner().invoke(app, ["explain", str(tmp_path / "query.sql"), "--format", form])
    assert ended.exit_code == 0
    assert ended.stdout.startswith(start)


def awkward() -> Diagram:
    diagram = Diagram()
    group = diagram.add_group('a "group" & more')
    label = "name LIKE '\"%\\_#1;<b>`' \n next"
    diagram.add_arrow(
        diagram.add_box(label, group, Form.SOURCE), diagram.add_box("results", None, Form.RESULT), 'by "k" | x'
    )
    return diagram


def test_labels_are_quoted_for_mermaid() -> None:
    assert to_mermaid(awkward()) == snapshot("""\
flowchart BT
  subgraph g0["a #quot;group#quot; #amp; more"]
    n0[("name LIKE '#quot;%\\_#35;1;#lt;b#gt;#96;' <br/> next")]
  end
  n1(["results"])
  n0 -->|"by #quot;k#quot; | x"| n1\
""")


def test_labels_are_quoted_for_graphviz() -> None:
    assert to_dot(awkward()) == snapshot("""\
digraph tidegate {
  rankdir=BT
  subgraph cluster_0 {
    label="a \\"group\\" & more"
    n0 [label="name LIKE '\\"%\\\\_#1;<b>`' \\n next", shape=cylinder]
  }
  n1 [label="results", shape=oval]
  n0 -> n1 [label="by \\"k\\" | x"]
}\
""")
