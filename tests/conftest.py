"""Fixtures every test may use. Rooms keep their own in a conftest.py beside their tests."""
