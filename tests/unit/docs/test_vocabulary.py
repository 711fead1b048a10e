"""One word for each concept: retired names stay out of the code, retired phrases out of pages and messages."""

from __future__ import annotations

import ast
import re

import pytest
from support.paths import ROOT

SOURCES = sorted((ROOT / "src/tidegate").rglob("*.py"))
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / ".github").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.sql")),
    ROOT / "dev",
]

FEATURES = {
    "common", "stateless", "join", "aggregate", "relation", "threshold_alert", "subscriptions", "keyed_join",
    "similarity_join", "shedding",
}  # fmt: skip

RETIRED_NAMES = {
    "ManyOneJoin": "KeyedJoin",
    "SynopsisJoinOperator": "KeyedJoinOperator",
    "RangeThresholdOperator": "SubscriptionsOperator",
    "ThresholdJoinOperator": "ThresholdAlertOperator",
    "Memory": "<Feature>State",
    "Beside": "StateCache",
    "Following": "SubscriptionTracker",
    "Meeting": "PartitionKeys, except of slots",
    "Surroundings": "BindContext",
    "meeting": "partition_keys",
    "deadletters": "dead_letters",
    "Facts": "Directive, Report, ControlRecord",
    "NO_FACTS": "None: before the first decision there is no directive",
    "Orders": "StepDirective",
    "OrdersByOperator": "ControlRecords, Directives",
    "NO_ORDERS": "NO_RECORDS, NO_DIRECTIVES",
    "Steering": "StepContext",
    "steering": "control",
    "orders": "directives",
    "facts": "report, record",
    "told": "report",
    "said": "report",
    "steered": "with_directive",
}
"""Names of classes, functions, modules, constants and fields that have given way to another word."""

RETIRED_PHRASES = (
    "already is",
    "an exit code that tells",
    "anew",
    "assumes what is not so",
    "behind",
    "beside",
    "cannot stand",
    "case does not count",
    "for want of",
    "in vain",
    "inside of",
    "(?<!there )is no (?:CSV|JSON|duration|host|kind|master|number|point|range|shape|statement|time|timestamp|unit)",
    "is said twice",
    "is there twice",
    "joins? by likeness",
    "leave (?:it|one of them|them) out",
    "longer than time itself",
    "made use of",
    "many-one join",
    "nobody",
    "of more than what",
    "put (?:the )?code in form",
    "says nothing while",
    "so many",
    "stands? (?:after|alone|before|behind|directly|for|in|right)",
    "taken in in",
    "tells its format",
    "than nothing apart",
    "there is:",
    "to be had",
    "told to",
    "what leaves because",
    "what of",
    "which is not there",
    "who is told",
    "whoever",
)
"""Phrases, as regular expressions, that have given way to plain words in everything that users and readers see."""

_RETIRED = re.compile(rf"(?<!\w)(?:{'|'.join(RETIRED_PHRASES)})(?!\w)", re.IGNORECASE)


def defined(path) -> set[str]:
    tree = ast.parse(path.read_text())
    named = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    bodies = [tree.body, *(node.body for node in named if isinstance(node, ast.ClassDef))]
    assigned = (
        target.id
        for body in bodies
        for node in body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    )
    return {*(node.name for node in named), *assigned, path.stem}


def test_retired_names_are_not_defined():
    found = {str(path.relative_to(ROOT)): defined(path) & RETIRED_NAMES.keys() - allowed_in(path) for path in SOURCES}
    assert {path: names for path, names in found.items() if names} == {}


def allowed_in(path) -> set[str]:
    """Return the names that are retired in one sense and have another one in this module."""
    allowed = {"Meeting"} if "similarity_join" in path.parts else set()
    if "shape" in path.parts:
        allowed.add("facts")  # what is proved of a function
    if path.name == "join.py" and "keyed_join" in path.parts:
        allowed.add("orders")  # of keys
    return allowed


def written_in(path) -> list[str]:
    """Return what a reader sees: a page, or the messages, docstrings and comments of a module."""
    text = path.read_text()
    if path.suffix != ".py":
        return [text]
    strings = [n.value for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    return [*strings, *re.findall(r"# .*", text)]


def retired_phrases(text: str) -> list[str]:
    return _RETIRED.findall(" ".join(text.split()))


def test_retired_phrases_are_not_written():
    found = {
        str(path.relative_to(ROOT)): phrases
        for path in (*PAGES, *SOURCES)
        if (phrases := [phrase for text in written_in(path) for phrase in retired_phrases(text)])
    }
    assert found == {}


def test_a_retired_phrase_that_is_put_back_is_found(tmp_path):
    page, module = tmp_path / "page.md", tmp_path / "module.py"
    page.write_text("Write WITHIN\nbehind FROM. A window Stands for NOBODY.")
    module.write_text(
        'def f():\n    """Say it anew."""\n    raise E(f"{x}: SET stands "\n        "behind a query")  # in vain\n'
    )
    assert [p for text in written_in(page) for p in retired_phrases(text)] == ["behind", "Stands for", "NOBODY"]
    assert {p for text in written_in(module) for p in retired_phrases(text)} == {"anew", "stands behind", "in vain"}
    assert retired_phrases("what beside_s, nobodys and understands in mean") == []


def test_each_feature_has_its_folder_and_no_other_lies_there():
    folders = {each.name for each in (ROOT / "src/tidegate/physical").iterdir() if (each / "__init__.py").exists()}
    assert folders == FEATURES


@pytest.mark.parametrize("feature", ["keyed_join", "similarity_join"])
def test_the_word_of_a_feature_is_the_same_in_every_layer(feature):
    for layer in ("algebra", "optimizer", "physical"):
        place = ROOT / "src/tidegate" / layer / feature
        assert place.is_dir() or place.with_suffix(".py").is_file()
    operator = feature.title().replace("_", "") + "Operator"
    assert operator in defined(ROOT / "src/tidegate/physical" / feature / "operator.py")


def test_every_word_of_the_glossary_has_one_definition():
    _, _, glossary = (ROOT / "ARCHITECTURE.md").read_text().partition("## Glossary")
    glossary = glossary.partition("\n## ")[0]
    words = [row.split("|")[1].strip() for row in glossary.splitlines() if row.startswith("| ")][1:]
    assert len(words) > 40
    assert len(words) == len(set(words))
