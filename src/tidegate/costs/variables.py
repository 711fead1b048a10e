"""Cost variables of the dissertation, by operator: the cost of each elementary action of an implementation.

The dissertation gives one letter several meanings (erratum E-29). Here each operator has its own names.
"""

from __future__ import annotations

from tidegate.values import value


@value
class FilterVariables:
    predicate: float
    append: float


@value
class MapVariables:
    function: float
    create: float
    append: float


@value
class UnionVariables:
    append: float


@value
class JoinVariables:
    """Variables of table 22.1."""

    bucket: float
    hash: float
    query: float
    remove: float
    build: float
    append: float
    left_list: float
    right_list: float


@value
class DistinctVariables:
    """Variables of table 22.2. `entry` is a bucket operation, `peek` an access to the least element of the queue."""

    entry: float
    hash: float
    query: float
    remove: float
    create: float
    append: float
    list: float
    update: float
    queue: float
    peek: float
    check: float


@value
class AggregateVariables:
    """Variables of table 22.3."""

    merge: float
    initialize: float
    evaluate: float
    create: float
    query: float
    remove: float
    list: float
    append: float


@value
class GroupVariables:
    """Variables of table 22.4: those of grouping itself, and those of the aggregation of a group."""

    identify: float
    fetch: float
    queue: float
    peek: float
    check: float
    attach: float
    of_group: AggregateVariables


@value
class GroupSizes:
    """Bytes of a partial aggregate, a final one, the identifier of a group, and an entry of the map of groups."""

    part: float
    final: float
    identifier: float
    entry: float


@value
class SplitVariables:
    """Variables of table 22.5. `test` is the check whether an element must be split."""

    insert: float
    delete: float
    remove: float
    queue: float
    check: float
    create: float
    append: float
    test: float


@value
class GranularityVariables:
    round: float
    test: float
    create: float
    append: float


@value
class WindowVariables:
    compute: float
    create: float
    append: float


@value
class CountWindowVariables:
    """Variables of table 22.6."""

    remove: float
    create: float
    insert: float
    delete: float
    append: float


@value
class PartitionedWindowVariables:
    """Variables of table 22.7."""

    identify: float
    fetch: float
    queue: float
    peek: float
    check: float
    create: float
    query: float
    insert: float
    delete: float
    append: float
