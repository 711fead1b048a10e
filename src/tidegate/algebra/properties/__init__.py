"""Properties of a plan's output that are known without running it.

All are derived bottom-up from the plan alone: how long elements are valid (`reach`), whether for one chronon only
(`is_chronon`), whether they end in the order in which they start (`ends_in_order`), which columns are unique at every
instant (`unique_keys`), and which operators are those of SQL, applied at every instant (`is_reducible`, `regions`).
The schema is a property of every node.
"""

from tidegate.algebra.properties.keys import is_unique, unique_keys
from tidegate.algebra.properties.regions import Region, has_own_times, is_reducible, regions, sees_own_times
from tidegate.algebra.properties.validities import (
    ValidityExtent,
    ends_in_order,
    granule,
    have_common_validities,
    is_bounded,
    is_chronon,
    is_source,
    validity_bound,
    validity_extent,
)

__all__ = [
    "Region",
    "ValidityExtent",
    "ends_in_order",
    "granule",
    "has_own_times",
    "have_common_validities",
    "is_bounded",
    "is_chronon",
    "is_reducible",
    "is_source",
    "is_unique",
    "regions",
    "sees_own_times",
    "unique_keys",
    "validity_bound",
    "validity_extent",
]
