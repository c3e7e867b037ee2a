"""asv suite of small inputs: fastem's side of what ``fastem bench --peers`` compares."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from fastem.bench import small, sweep

from . import measuring

#: Python around the kernels, and kernels that are worth a thread.
_SIZES = (1, 1000)


def _call(task):
    side = task.side("fastem")
    return partial(side.run, None)


class Calls(measuring._Suite):
    """Rows, sequences and updates, one at a time; learners; fits of iris. Streams: fifty calls."""

    works: ClassVar = {f"{row.work}, {row.shape}": partial(_call, row.task) for row in small.SMALL}
    params = tuple(works)

    def setup_cache(self):
        return measuring.seconds(self.works)


class Methods(measuring._Suite):
    """Every method of the peers' interfaces."""

    works: ClassVar = {
        f"{curve.estimator}, {curve.method}, {size:,}": partial(_call, sweep.Cell(curve, size))
        for curve in sweep.CURVES
        for size in curve.sizes(_SIZES)
    }
    params = tuple(works)

    def setup_cache(self):
        return measuring.seconds(self.works)
