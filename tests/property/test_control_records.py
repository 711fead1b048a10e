"""Control values of every feature are equal to what is read after they have been written."""

from __future__ import annotations

from dataclasses import fields, is_dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.recorded import recorded

from tidegate.physical.common.codec import as_recorded
from tidegate.physical.common.control import ControlRecord
from tidegate.physical.keyed_join.operator import KeyedJoinOperator
from tidegate.physical.similarity_join.operator import SimilarityJoinOperator
from tidegate.physical.threshold_alert.operator import ThresholdAlertOperator

OPERATORS = (KeyedJoinOperator, SimilarityJoinOperator, ThresholdAlertOperator)
CLASSES = [kind for operator in OPERATORS for kind in operator.control_types()]

st.register_type_strategy(float, st.floats(allow_nan=False))


@pytest.mark.parametrize("kind", [ControlRecord, *CLASSES], ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_what_is_read_is_what_was_written(kind, data):
    value = data.draw(st.from_type(kind))
    assert recorded(value) == value
    assert as_recorded(value) == value


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.__name__)
def test_a_record_has_its_directive(operator):
    types = operator.control_types()
    assert all(is_dataclass(kind) for kind in types)
    assert {each.name: each.type for each in fields(types.record)}["directive"] == types.directive.__name__
