"""What the measurements were taken on: the processor, its matrix-product rate, the versions."""

from __future__ import annotations

import os
import platform
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import sleep

import numpy as np

from .timing import best_of

__all__ = ["busy", "cores", "cpu_name", "describe", "installed_version", "matrix_product_rate"]


def matrix_product_rate(size: int = 2000) -> float:
    """Operations a second of a product of square matrices, on all cores."""
    a = np.random.default_rng(0).normal(size=(size, size))
    return 2.0 * size**3 / best_of(lambda: a @ a, 4)


def busy(during: float = 1.0) -> float:
    """The share of the processor that other programs use; 0 where the system does not tell."""

    def ticks():
        numbers = [int(word) for word in Path("/proc/stat").read_text().split()[1:9]]
        # Of user, nice, system, idle, waiting, interrupts (two kinds), and stolen by other guests.
        return sum(numbers), numbers[3] + numbers[4]

    try:
        total, idle = ticks()
        sleep(during)
        later, later_idle = ticks()
    except (OSError, ValueError, IndexError):
        return 0.0
    return 1.0 - (later_idle - idle) / max(later - total, 1)


def cores() -> int:
    """The cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cpu_name() -> str:
    """The processor's name, as far as the system tells."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        text = ""
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found[1].strip() if found else platform.processor() or platform.machine()


def installed_version(distribution: str) -> str | None:
    """The version of a distribution; None if it is not installed."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def describe() -> dict:
    """All of it, for the results."""
    return {
        # First: the matrix product's threads go on for a moment.
        "busy": busy(),
        "cpu": cpu_name(),
        "cores": cores(),
        "python": platform.python_version(),
        "matrix_product_rate": matrix_product_rate(),
        "versions": {name: installed_version(name) for name in ("fastem", "numpy", "numba")},
    }
