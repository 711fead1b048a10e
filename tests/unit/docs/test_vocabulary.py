"""One word for each concept: retired names stay out of the code, and retired phrases out of the pages."""

from __future__ import annotations

import ast
import re

import pytest
from support.paths import ROOT

SOURCES = sorted((ROOT / "src/tidegate").rglob("*.py"))
TOP = ("README", "ARCHITECTURE", "CONTRIBUTING")
PAGES = [*sorted((ROOT / "docs").glob("*.md")), *(ROOT / f"{name}.md" for name in TOP)]

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
    "many-one join",
    "join by likeness",
    "joins by likeness",
    "in vain",
    "whoever",
    "anew",
    "taken in in",
    "stands behind",
    "nobody",
    "an exit code that tells",
)


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


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_retired_names_are_not_defined(path):
    allowed = {"Meeting"} if "similarity_join" in path.parts else set()
    assert not defined(path) & RETIRED_NAMES.keys() - allowed


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
@pytest.mark.parametrize("phrase", RETIRED_PHRASES)
def test_retired_phrases_are_not_written(path, phrase):
    assert not re.search(rf"\b{phrase}\b", path.read_text(), re.IGNORECASE)


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
