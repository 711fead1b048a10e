"""Settings for all tests, and a Spark session shared by those that need one."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

# Kernels are compiled on first use, which no deadline for one example can allow for.
settings.register_profile(
    "tidegate", deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("thorough", parent=settings.get_profile("tidegate"), max_examples=2000)
settings.load_profile(os.environ.get("TIDEGATE_HYPOTHESIS", "tidegate"))


@pytest.fixture(scope="session")
def spark():
    from tidegate.runtime.spark.session import start_spark

    session = start_spark("local[2]", name="tests")
    yield session
    session.stop()
