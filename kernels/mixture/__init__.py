"""Mixtures: one pass over the rows, and the online loops."""
