"""The tests. Helpers are imported as `tests.…` from anywhere below."""
