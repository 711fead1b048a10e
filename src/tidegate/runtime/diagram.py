"""Diagrams of boxes in groups, rendered for Mermaid and Graphviz."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum


class Form(Enum):
    """Role of a box, with its outline: the text before and after the label in Mermaid, and the shape in Graphviz."""

    OPERATOR = ("[", "]", "box")
    SOURCE = ("[(", ")]", "cylinder")
    RESULT = ("([", "])", "oval")
    NOTE = ("[/", "/]", "note")


@dataclass(frozen=True, slots=True)
class DiagramBox:
    label: str
    form: Form
    group: int | None


@dataclass(frozen=True, slots=True)
class Arrow:
    """Arrow between two boxes, given by their numbers."""

    start: int
    end: int
    label: str = ""


@dataclass(slots=True)
class Diagram:
    """Boxes, groups and arrows; the number of a box or group is its position."""

    groups: list[str] = field(default_factory=list)
    boxes: list[DiagramBox] = field(default_factory=list)
    arrows: list[Arrow] = field(default_factory=list)

    def add_group(self, title: str) -> int:
        """Add a group and return its number."""
        self.groups.append(title)
        return len(self.groups) - 1

    def add_box(self, label: str, group: int | None, form: Form = Form.OPERATOR) -> int:
        """Add a box and return its number."""
        self.boxes.append(DiagramBox(label, form, group))
        return len(self.boxes) - 1

    def add_arrow(self, start: int, end: int, label: str = "") -> None:
        self.arrows.append(Arrow(start, end, label))

    def boxes_in(self, group: int | None) -> Iterator[tuple[int, DiagramBox]]:
        return ((number, box) for number, box in enumerate(self.boxes) if box.group == group)


def to_mermaid(diagram: Diagram) -> str:
    """Render the diagram as a Mermaid flowchart.

    Examples
    --------
    >>> diagram = Diagram()
    >>> diagram.add_arrow(diagram.add_box('say "a" < b', None, Form.SOURCE), diagram.add_box("end", None))
    >>> print(to_mermaid(diagram))
    flowchart BT
      n0[("say #quot;a#quot; #lt; b")]
      n1["end"]
      n0 --> n1
    """
    lines = ["flowchart BT"]
    for number, title in enumerate(diagram.groups):
        lines.append(f'  subgraph g{number}["{_escape_mermaid(title)}"]')
        lines += [f"    {_mermaid_box(*each)}" for each in diagram.boxes_in(number)]
        lines.append("  end")
    lines += [f"  {_mermaid_box(*each)}" for each in diagram.boxes_in(None)]
    for arrow in diagram.arrows:
        label = f'|"{_escape_mermaid(arrow.label)}"|' if arrow.label else ""
        lines.append(f"  n{arrow.start} -->{label} n{arrow.end}")
    return "\n".join(lines)


def to_dot(diagram: Diagram) -> str:
    r"""Render the diagram in the DOT language of Graphviz.

    Examples
    --------
    >>> diagram = Diagram()
    >>> diagram.add_arrow(diagram.add_box('say "a"', None), diagram.add_box("end", None), "by k")
    >>> print(to_dot(diagram))
    digraph tidegate {
      rankdir=BT
      n0 [label="say \"a\"", shape=box]
      n1 [label="end", shape=box]
      n0 -> n1 [label="by k"]
    }
    """
    lines = ["digraph tidegate {", "  rankdir=BT"]
    for number, title in enumerate(diagram.groups):
        lines += [f"  subgraph cluster_{number} {{", f'    label="{_escape_dot(title)}"']
        lines += [f"    {_dot_box(*each)}" for each in diagram.boxes_in(number)]
        lines.append("  }")
    lines += [f"  {_dot_box(*each)}" for each in diagram.boxes_in(None)]
    for arrow in diagram.arrows:
        label = f' [label="{_escape_dot(arrow.label)}"]' if arrow.label else ""
        lines.append(f"  n{arrow.start} -> n{arrow.end}{label}")
    return "\n".join([*lines, "}"])


def _mermaid_box(number: int, box: DiagramBox) -> str:
    before, after, _ = box.form.value
    return f'n{number}{before}"{_escape_mermaid(box.label)}"{after}'


def _dot_box(number: int, box: DiagramBox) -> str:
    return f'n{number} [label="{_escape_dot(box.label)}", shape={box.form.value[2]}]'


_ENTITIES = {"#": "#35;", "&": "#amp;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "`": "#96;", "\n": "<br/>"}


def _escape_mermaid(text: str) -> str:
    return "".join(_ENTITIES.get(character, character) for character in text)


def _escape_dot(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
