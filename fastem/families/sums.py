"""Families whose statistics are one array of sums."""

from __future__ import annotations

import numpy as np

from .. import checks
from ..kernels.families.linear import LinearSums
from .base import Family

__all__ = ["NaturalFamily", "SummedFamily", "outcomes_missed"]

#: A rate or probability below this is that of what never happens.
NEVER = 1e-300


class SummedFamily(Family):
    """A family whose only block of statistics is an array."""

    #: The name of the block.
    block_name: str
    #: The named tuple in which kernels have it.
    sums_kind: type
    #: The field of the packed family that has its shape.
    shaped_as: str

    def check_blocks(self, blocks, packed):
        checks.block(blocks, self.block_name, getattr(packed, self.shaped_as).shape)

    def buffers(self, packed):
        return self.sums_kind(np.zeros_like(getattr(packed, self.shaped_as)))

    def collect(self, packed, mass, buffers):
        return {self.block_name: buffers[0]}

    def disperse(self, blocks, packed):
        self.check_blocks(blocks, packed)
        return self.sums_kind(blocks[self.block_name].copy())


class NaturalFamily(SummedFamily):
    """``log p(x|θ) = log b(x) + θ·φ(x) - G(θ)``; the statistics are ``Σ γ φ(x)``."""

    block_name = "sums"
    sums_kind = LinearSums
    shaped_as = "natural"

    def log_joint(self, blocks, mass, packed):
        self.check_blocks(blocks, packed)
        return float((blocks["sums"] * packed.natural).sum() + mass @ packed.offsets)


def outcomes_missed(expected, others, never=NEVER):
    """For all pairs of rows, whether what is expected to happen has the probability zero."""
    return (expected > never).astype(float) @ (others == 0.0).T.astype(float) > 0
