"""Benchmarks: asv suites (``asv run``), micro-benchmarks (``pytest benchmarks/``), and measurements.

The table against other libraries is ``fastem bench --peers``.
"""
