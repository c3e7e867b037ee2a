"""Benchmarks: asv suites (``asv run``) and comparisons with other libraries."""
