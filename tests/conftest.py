"""Fixtures every test may use. Rooms keep their own in a conftest.py beside their tests."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.s3.fixtures", "tests.spark.fixtures"]

# A log on disk per example: slower than hypothesis likes, and no reason to stop.
_SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture)
settings.register_profile("quick", max_examples=50, deadline=None, suppress_health_check=_SLOW)
settings.register_profile("ci", max_examples=75, deadline=None, suppress_health_check=_SLOW)
settings.register_profile("hunt", max_examples=5000, deadline=None, suppress_health_check=_SLOW)
settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if "CI" in os.environ else "quick")
)


# What shares a Spark session, the longest first; and modules that start JVMs of their own.
SESSIONS = (
    "tests/hive/test_kill.py",
    "tests/spark/test_checkpoint",
    "tests/hive/",
    "tests/spark/test_agreement",
    "tests/spark/",
)
APART = (
    "tests/spark/test_checkpoint_kills.py",
    "tests/spark/test_cluster.py",
    "tests/spark/test_connect.py",
    "tests/jobs/",
)


def session_of(nodeid: str) -> str | None:
    """Return whose session a test shares, or which JVMs it waits for; None where it needs none."""
    if nodeid.startswith(APART):
        return nodeid.partition("::")[0]
    return next((room for room in SESSIONS if nodeid.startswith(room)), None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put what needs a session last.

    A session lives as long as its process; what is tested without one is what a user without
    Spark has.
    """
    order = {room: number for number, room in enumerate(SESSIONS)}

    def place(item: pytest.Item) -> int:
        session = session_of(item.nodeid)
        return -1 if session is None else order.get(session, 0)

    items.sort(key=place)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each session to one worker; the rest is dealt out test by test."""
    from xdist.scheduler import LoadScopeScheduling

    class BySession(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return session_of(nodeid) or nodeid

    return BySession(config, log)
