"""Benchmarks: asv suites (``asv run``), kernels (``pytest benchmarks/``), and measurements.

The table against other libraries is ``fastem bench --peers``.
"""
