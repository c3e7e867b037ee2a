"""Kalman filters, in one flat array: filter, smoother, statistics, maximum, online loop."""
