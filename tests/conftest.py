"""Fixtures every test may use. Rooms keep their own in a conftest.py beside their tests."""

from __future__ import annotations

pytest_plugins = ["tests.s3.fixtures"]
