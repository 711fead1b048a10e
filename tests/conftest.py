"""Settings for all tests, and a Spark session shared by those that need one."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from support.breakage import pytest_addoption, pytest_configure
from support.examples import PROFILE, examples

__all__ = ["pytest_addoption", "pytest_configure", "spark"]

# Kernels are compiled on first use, which no deadline for one example can allow for.
settings.register_profile(
    PROFILE, deadline=None, max_examples=examples(40), suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile(PROFILE)


@pytest.fixture(scope="session")
def spark():
    from tidegate.runtime.spark.session import start_spark

    session = start_spark("local[2]", name="tests")
    yield session
    session.stop()
