"""Fixtures every test may use. Rooms keep their own in a conftest.py beside their tests."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.s3.fixtures", "tests.spark.fixtures"]

# A log on disk per example: slower than hypothesis likes, and no reason to stop.
_SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture)
settings.register_profile("quick", max_examples=50, deadline=None, suppress_health_check=_SLOW)
settings.register_profile("ci", max_examples=200, deadline=None, suppress_health_check=_SLOW)
settings.register_profile("hunt", max_examples=5000, deadline=None, suppress_health_check=_SLOW)
settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if "CI" in os.environ else "quick")
)
