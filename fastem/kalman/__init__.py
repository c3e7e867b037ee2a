"""Kalman filters: ``from fastem.kalman import KalmanFilter``."""

from .estimators import KalmanFilter

__all__ = ["KalmanFilter"]
