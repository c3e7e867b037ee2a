"""Families side by side, each over its own columns: mixed tables."""

from __future__ import annotations

import numpy as np

from ..statistics import join, split
from .base import Family

__all__ = ["Product"]


class Product(Family):
    """A product of families over columns.

    Parameters
    ----------
    *members : tuple of (Family, columns)
        ``columns`` is how many columns the family takes, from left to right, or the list of their
        numbers. Parameters and statistics carry the member's name: ``gaussian_means``,
        ``poisson_rates``; a second member of the same kind is ``poisson2``.

    Examples
    --------
    Five Gaussian columns and three of counts:

    >>> from fastem.families import Gaussian, Poisson, Product
    >>> Product((Gaussian("diag"), 5), (Poisson(), 3)).parameter_names
    ('gaussian_means', 'gaussian_covariances', 'poisson_rates')
    """

    def __init__(self, *members):
        if not members:
            raise ValueError("A product needs at least one (family, columns) pair.")
        self.families = []
        self.columns = []
        self.names = []
        following = 0
        for member in members:
            try:
                family, columns = member
            except (TypeError, ValueError):
                raise ValueError(
                    "Each member of a product is a pair of a family and its columns, such as "
                    f"(Poisson(), 3); got {member!r}."
                ) from None
            if not isinstance(family, Family):
                raise ValueError(
                    "Each member of a product is a pair of a family and its columns, such as "
                    f"(Poisson(), 3); got {family!r} for a family."
                )
            if isinstance(columns, (int, np.integer)):
                columns = range(following, following + int(columns))
            columns = [int(c) for c in columns]
            if not columns:
                raise ValueError(f"{family!r} has no columns.")
            following = max(columns) + 1
            public = (c.__name__ for c in type(family).__mro__ if not c.__name__.startswith("_"))
            name = next(public).lower()
            count = sum(other.rstrip("0123456789") == name for other in self.names) + 1
            self.families.append(family)
            self.columns.append(columns)
            self.names.append(name if count == 1 else f"{name}{count}")
        flat = sorted(c for columns in self.columns for c in columns)
        if flat != list(range(len(flat))):
            raise ValueError(
                f"The columns of a product must be 0 .. {len(flat) - 1}, each once; got {flat}."
            )
        self.n_columns = len(flat)
        self.indexes = any(family.indexes for family in self.families)
        self.compiled = all(family.compiled for family in self.families)
        self.nonnegative = any(family.nonnegative for family in self.families)

    def __repr__(self):
        pairs = zip(self.families, self.columns, strict=True)
        return f"Product({', '.join(f'({family!r}, {columns})' for family, columns in pairs)})"

    @property
    def parameter_names(self):
        return tuple(f"{name}_{p}" for name, f in self._members() for p in f.parameter_names)

    def with_zeros(self):
        exact = super().with_zeros()
        exact.families = [family.with_zeros() for family in self.families]
        return exact

    def settings(self):
        return {
            "members": [
                [family.to_settings(), columns]
                for family, columns in zip(self.families, self.columns, strict=True)
            ]
        }

    @classmethod
    def from_settings(cls, settings, make):
        return cls(*((make(family), columns) for family, columns in settings["members"]))

    def columns_missing_together(self, n_columns):
        return [
            np.array(columns)[group]
            for family, columns in zip(self.families, self.columns, strict=True)
            for group in family.columns_missing_together(len(columns))
        ]

    def as_members(self):
        for family in self.families:
            if family.shared_parameters:
                raise ValueError(
                    "Within a product, the members of a mixture cannot share parameters, and "
                    f"those of {family!r} share {' and '.join(family.shared_parameters)}: take "
                    f"another family; got the member {self!r}."
                )
        return self

    def _members(self):
        return zip(self.names, self.families, strict=True)

    @property
    def _prefixes(self):
        return [f"{name}_" for name in self.names]

    def _split(self, named):
        """For each member the entries of a dict that are its own, by their own names."""
        return split(named, self._prefixes)

    def _join(self, parts):
        """The inverse of :meth:`_split`."""
        return join(parts, self._prefixes)

    def _fixed(self, fixed):
        """For each member the names of its parameters that are held fixed."""
        return self._split(dict.fromkeys(fixed))

    def _horizons(self, horizon):
        """The horizon of each member."""
        return horizon if horizon is not None else self._all(None)

    def _all(self, value):
        """The same for each member."""
        return (value,) * len(self.families)

    def _each(self, method, *arguments):
        """What ``method`` of each member returns for the member's item of each argument."""
        for family, *items in zip(self.families, *arguments, strict=True):
            yield getattr(family, method)(*items)

    def _check_width(self, n_columns):
        if n_columns != self.n_columns:
            raise ValueError(
                f"The data have {n_columns} columns, and the families of this product take "
                f"{self.n_columns} in all: {self!r}."
            )

    def check(self, X):
        self._check_width(X.shape[1])
        for family, columns in zip(self.families, self.columns, strict=True):
            try:
                family.check(X[:, columns])
            except ValueError as error:
                raise ValueError(f"{error} (counting columns from {columns[0]})") from None

    def check_indices(self, X, missing=False):
        self._check_width(X.shape[1])
        for family, columns in zip(self.families, self.columns, strict=True):
            if family.indexes:
                family.check_indices(X[:, columns], missing)

    def entry_tests(self, n_columns):
        self._check_width(n_columns)
        tests = [None] * n_columns
        for family, columns in zip(self.families, self.columns, strict=True):
            mine = family.entry_tests(len(columns))
            if mine is None:
                return None
            for column, test in zip(columns, mine, strict=True):
                tests[column] = test
        return tests

    def prepare(self, X):
        self._check_width(X.shape[1])
        flat = [c for columns in self.columns for c in columns]
        if self.compiled and flat == list(range(len(flat))):
            return X, None
        parts, base = [], None
        for family, columns in zip(self.families, self.columns, strict=True):
            part, log_base = family.prepare(X[:, columns])
            parts.append(part)
            if log_base is not None:
                base = log_base if base is None else base + log_base
        return np.concatenate(parts, axis=1), base

    def pack(self, parameters):
        packed = []
        parts = zip(self._members(), self._split(parameters), self.columns, strict=True)
        for (name, family), part, columns in parts:
            try:
                member = family.pack(part)
            except (TypeError, ValueError) as error:
                raise type(error)(f"Of the parameters {name}_...: {error}") from error
            # The features of a family of the user's own are as many as it likes.
            n_columns = family.size(member)[1]
            if family.compiled and n_columns != len(columns):
                raise ValueError(
                    f"The parameters {name}_... are those of {n_columns} columns, and {family!r} "
                    f"has {len(columns)} columns of this product."
                )
            packed.append(member)
        packed = tuple(packed)
        self.size(packed)  # raises for members with different numbers of components
        return packed

    def check_blocks(self, blocks, packed):
        for _ in self._each("check_blocks", self._split(blocks), packed):
            pass

    def packs_exactly(self, packed):
        return all(self._each("packs_exactly", packed))

    def refresh(self, packed):
        return all(self._each("refresh", packed))

    def unpack(self, packed):
        return self._join(self._each("unpack", packed))

    def buffers(self, packed):
        return tuple(self._each("buffers", packed))

    def collect(self, packed, mass, buffers):
        return self._join(self._each("collect", packed, self._all(mass), buffers))

    def disperse(self, blocks, packed):
        return tuple(self._each("disperse", self._split(blocks), packed))

    def horizon(self, packed, total, buffers):
        return tuple(self._each("horizon", packed, self._all(total), buffers))

    def kernel_horizon(self, horizon):
        return tuple(self._each("kernel_horizon", self._horizons(horizon)))

    def flags(self, fixed):
        return tuple(self._each("flags", self._fixed(fixed)))

    def own(self, packed, mass, horizon=None):
        return self._join(self._each("own", packed, self._all(mass), self._horizons(horizon)))

    def maximize(self, blocks, mass, packed, fixed=()):
        masses = self._all(mass)
        return tuple(
            self._each("maximize", self._split(blocks), masses, packed, self._fixed(fixed))
        )

    def start(self, centers):
        self._check_width(np.shape(centers)[1])
        parts = [np.asarray(centers)[:, columns] for columns in self.columns]
        return self._join(self._each("start", parts))

    def stirred(self, parameters, rng):
        return self._join(self._each("stirred", self._split(parameters), self._all(rng)))

    def draw(self, parameters, labels, rng, horizon=None):
        X = np.empty((len(labels), self.n_columns))
        drawn = self._each(
            "draw", self._split(parameters), self._all(labels), self._all(rng),
            self._horizons(horizon),
        )  # fmt: skip
        for columns, values in zip(self.columns, drawn, strict=True):
            X[:, columns] = values
        return X

    def reorder(self, parameters, order):
        return self._join(self._each("reorder", self._split(parameters), self._all(order)))

    def cross(self, packed, other, horizon=None):
        return sum(self._each("cross", packed, other, self._horizons(horizon)))

    def log_linear(self, packs, alphas, horizon=None, fixed=()):
        each = [list(member) for member in zip(*packs, strict=True)]
        more = self._all(alphas), self._horizons(horizon), self._fixed(fixed)
        return tuple(self._each("log_linear", each, *more))

    def log_linear_costs(self, packed, packs, alphas, horizon=None):
        each = [list(member) for member in zip(*packs, strict=True)]
        horizons = self._horizons(horizon)
        return sum(self._each("log_linear_costs", packed, each, self._all(alphas), horizons))

    def rules_out(self, blocks, mass, packed):
        return any(self._each("rules_out", self._split(blocks), self._all(mass), packed))

    def without_noise(self, packed):
        return _unless_same(packed, tuple(self._each("without_noise", packed)))

    def arranged(self, packed, other, horizon=None):
        moved = self._each("arranged", packed, other, self._horizons(horizon))
        return _unless_same(packed, tuple(moved))

    def _pool(self, method, packed, mass, other, other_mass, horizon, fixed, *orders):
        return self._each(
            method, packed, self._all(mass), other, self._all(other_mass),
            *map(self._all, orders), self._horizons(horizon), self._fixed(fixed),
        )  # fmt: skip

    def pooled(self, packed, mass, other, other_mass, horizon=None, fixed=()):
        return _sum_of_all(self._pool("pooled", packed, mass, other, other_mass, horizon, fixed))

    def pooled_orders(self, packed, mass, other, other_mass, orders, horizon=None, fixed=()):
        return _sum_of_all(
            self._pool("pooled_orders", packed, mass, other, other_mass, horizon, fixed, orders)
        )

    def arranged_to_pool(self, packed, mass, other, other_mass, horizon=None, fixed=()):
        return tuple(
            self._pool("arranged_to_pool", packed, mass, other, other_mass, horizon, fixed)
        )

    def log_joint(self, blocks, mass, packed):
        return sum(self._each("log_joint", self._split(blocks), self._all(mass), packed))

    def size(self, packed):
        sizes = list(self._each("size", packed))
        if len({n_components for n_components, _ in sizes}) > 1:
            counts = {name: size[0] for name, size in zip(self.names, sizes, strict=True)}
            raise ValueError(f"Members with different numbers of components: {counts}.")
        return sizes[0][0], sum(n_columns for _, n_columns in sizes)

    def n_parameters(self, parameters):
        return sum(self._each("n_parameters", self._split(parameters)))


def _unless_same(packed, moved):
    """``moved``, or ``packed`` itself if no member of it has changed."""
    return packed if all(m is p for m, p in zip(moved, packed, strict=True)) else moved


def _sum_of_all(parts):
    """The sum, or None if some part does not exist."""
    parts = list(parts)
    return None if any(part is None for part in parts) else sum(parts)
