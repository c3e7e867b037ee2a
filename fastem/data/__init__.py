"""Data as models see them: rows, sequences, and data that are elsewhere."""
