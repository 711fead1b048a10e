"""Names: a function says what it does, a class name has one meaning, and features use the words of the glossary."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.paths import ROOT

PACKAGE = ROOT / "src/tidegate"
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}

IRREGULAR = {
    "told", "taken", "kept", "said", "found", "known", "seen", "made", "held", "lost", "left", "written",
    "begun", "gone", "sent", "met", "spent", "brought", "built", "bound", "given", "shown", "drawn", "grown",
    "risen", "fallen", "thrown", "won", "paid", "meant", "chosen", "broken", "laid", "led", "fed",
}  # fmt: skip
NO_PARTICIPLES = {"need", "feed", "seed", "speed", "exceed", "proceed", "embed"}

PARTICIPLES_ALLOWED = {
    "compiled": "a decorator says what a function becomes",
    "inlined": "a decorator says what a function becomes",
    "filtered": "a rule of the grammar",
    "quantified": "a rule of the grammar",
    "ordered": "a rule of the grammar",
    "closed": "the state of a feed, as that of a file",
    "_left": "the function LEFT of SQL",
    "changed": "a history as a change makes it",
    "trimmed": "a history as trimming makes it",
}

MOST_ARGUMENTS = 8
MORE_ARGUMENTS_ALLOWED = {
    ("cli/main.py", "run"): "the options of the command",
    ("cli/edge.py", "edge"): "the options of the command",
    ("cli/serve.py", "serve"): "the options of the command",
    ("session.py", "Session.run"): "settings, by keyword",
    ("live/session.py", "LiveSession.__init__"): "settings, by keyword",
}

OPERATORS = {
    "join": "JoinOperator",
    "aggregate": "AggregateOperator",
    "threshold_alert": "ThresholdAlertOperator",
    "subscriptions": "SubscriptionsOperator",
    "keyed_join": "KeyedJoinOperator",
    "similarity_join": "SimilarityJoinOperator",
}
"""The operator of each feature that has a module of that name."""


def functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yield all functions with their qualified names."""
    waiting: list[tuple[str, ast.AST]] = [("", tree)]
    while waiting:
        prefix, node = waiting.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                if isinstance(child, ast.FunctionDef):
                    yield f"{prefix}{child.name}", child
                waiting.append((f"{prefix}{child.name}.", child))
            else:
                waiting.append((prefix, child))


def classes(tree: ast.Module) -> list[str]:
    return [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]


def is_participle(name: str) -> bool:
    word = name.strip("_")
    return "_" not in word and (word in IRREGULAR or (word.endswith("ed") and word not in NO_PARTICIPLES))


def place(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def test_a_class_name_has_one_meaning():
    homes = defaultdict(list)
    for path, tree in TREES.items():
        for name in classes(tree):
            homes[name].append(place(path))
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}


def test_no_function_is_named_by_a_participle():
    found = [
        f"{place(path)}: {name}"
        for path, tree in TREES.items()
        for name, node in functions(tree)
        if is_participle(node.name) and node.name not in PARTICIPLES_ALLOWED
    ]
    assert found == []


def test_no_function_takes_many_arguments():
    found = {}
    for path, tree in TREES.items():
        for name, node in functions(tree):
            given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            count = sum(each.arg not in ("self", "cls") for each in given)
            if count > MOST_ARGUMENTS:
                found[place(path), name] = count
    assert found.keys() - MORE_ARGUMENTS_ALLOWED.keys() == set()


@pytest.mark.parametrize("feature", OPERATORS)
def test_the_operator_and_the_state_of_a_feature_have_its_word(feature: str):
    folder = PACKAGE / "physical" / feature
    assert OPERATORS[feature] in classes(TREES[folder / "operator.py"])
    if (folder / "state.py").exists():
        assert OPERATORS[feature].replace("Operator", "State") in classes(TREES[folder / "state.py"])


def test_the_words_of_the_glossary_are_those_of_the_code():
    _, _, glossary = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").partition("## Glossary")
    words = re.findall(r"^\| ([a-z -]+) \|", glossary, re.MULTILINE)[1:]
    names = {node.name for tree in TREES.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    names |= {node.arg for tree in TREES.values() for node in ast.walk(tree) if isinstance(node, ast.arg)}
    names |= {name for tree in TREES.values() for name, _ in functions(tree)} | {path.stem for path in TREES}
    text = " ".join(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower() for name in names)
    words.remove("snapshot")  # a word of the meaning: in the code, only the reference makes snapshots
    assert [word for word in words if word.replace(" ", "_").replace("-", "_").removesuffix("s") not in text] == []


def test_a_participle_is_told_from_other_words():
    assert [is_participle(name) for name in ("_counted", "told", "feed", "kept_rows", "merge")] == [
        True, True, False, False, False,
    ]  # fmt: skip
