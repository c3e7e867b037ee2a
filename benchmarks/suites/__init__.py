"""asv suites, a file for each model: ``asv run``."""
