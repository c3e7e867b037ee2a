"""Families side by side, each over its own columns: mixed tables."""

from __future__ import annotations

import numpy as np

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
            name = family.public_name().lower()
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
        return tuple(
            f"{name}_{parameter}"
            for name, family in zip(self.names, self.families, strict=True)
            for parameter in family.parameter_names
        )

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
        if any(family.shared_parameters for family in self.families):
            raise ValueError(
                "Within a product, the members of a mixture cannot share a covariance: take "
                f"another covariance_type than 'tied'; got the member {self!r}."
            )
        return self

    def _members(self):
        return zip(self.names, self.families, strict=True)

    def _part(self, named, name):
        """The entries of a dict that belong to a member, by their own names."""
        return {
            key[len(name) + 1 :]: value
            for key, value in named.items()
            if key.startswith(f"{name}_")
        }

    def _join(self, parts):
        return {
            f"{name}_{key}": value
            for name, part in zip(self.names, parts, strict=True)
            for key, value in part.items()
        }

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
        for (name, family), columns in zip(self._members(), self.columns, strict=True):
            try:
                member = family.pack(self._part(parameters, name))
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
        for (name, family), p in zip(self._members(), packed, strict=True):
            family.check_blocks(self._part(blocks, name), p)

    def refresh(self, packed):
        return all(f.refresh(p) for f, p in zip(self.families, packed, strict=True))

    def unpack(self, packed):
        return self._join([f.unpack(p) for f, p in zip(self.families, packed, strict=True)])

    def buffers(self, packed):
        return tuple(f.buffers(p) for f, p in zip(self.families, packed, strict=True))

    def collect(self, packed, mass, buffers):
        parts = zip(self.families, packed, buffers, strict=True)
        return self._join([f.collect(p, mass, b) for f, p, b in parts])

    def disperse(self, blocks, packed):
        return tuple(
            f.disperse(self._part(blocks, name), p)
            for (name, f), p in zip(self._members(), packed, strict=True)
        )

    def horizon(self, packed, total, buffers):
        parts = zip(self.families, packed, buffers, strict=True)
        return tuple(f.horizon(p, total, b) for f, p, b in parts)

    def kernel_horizon(self, horizon):
        return tuple(
            f.kernel_horizon(h) for f, h in zip(self.families, self._horizons(horizon), strict=True)
        )

    def _horizons(self, horizon):
        return horizon if horizon is not None else (None,) * len(self.families)

    def flags(self, fixed):
        return tuple(
            f.flags([p for p in f.parameter_names if f"{name}_{p}" in fixed])
            for name, f in self._members()
        )

    def own(self, packed, mass, horizon=None):
        parts = zip(self.families, packed, self._horizons(horizon), strict=True)
        return self._join([f.own(p, mass, h) for f, p, h in parts])

    def maximize(self, blocks, mass, packed, fixed=()):
        return tuple(
            f.maximize(
                self._part(blocks, name), mass, p,
                [q for q in f.parameter_names if f"{name}_{q}" in fixed],
            )
            for (name, f), p in zip(self._members(), packed, strict=True)
        )  # fmt: skip

    def start(self, centers):
        self._check_width(np.shape(centers)[1])
        pairs = zip(self.families, self.columns, strict=True)
        return self._join([f.start(np.asarray(centers)[:, c]) for f, c in pairs])

    def stirred(self, parameters, rng):
        parts = ((f, self._part(parameters, name)) for name, f in self._members())
        return self._join([f.stirred(part, rng) for f, part in parts])

    def draw(self, parameters, labels, rng, horizon=None):
        X = np.empty((len(labels), sum(map(len, self.columns))))
        horizons = self._horizons(horizon)
        for (name, f), c, h in zip(self._members(), self.columns, horizons, strict=True):
            X[:, c] = f.draw(self._part(parameters, name), labels, rng, h)
        return X

    def reorder(self, parameters, order):
        return self._join([f.reorder(self._part(parameters, n), order) for n, f in self._members()])

    def cross(self, packed, other, horizon=None):
        parts = zip(self.families, packed, other, self._horizons(horizon), strict=True)
        return sum(f.cross(p, q, h) for f, p, q, h in parts)

    def rules_out(self, blocks, mass, packed):
        return any(
            f.rules_out(self._part(blocks, name), mass, p)
            for (name, f), p in zip(self._members(), packed, strict=True)
        )

    def without_noise(self, packed):
        plain = tuple(f.without_noise(p) for f, p in zip(self.families, packed, strict=True))
        return packed if all(q is p for q, p in zip(plain, packed, strict=True)) else plain

    def arranged(self, packed, other, horizon=None):
        parts = zip(self.families, packed, other, self._horizons(horizon), strict=True)
        moved = tuple(f.arranged(p, q, h) for f, p, q, h in parts)
        return packed if all(m is p for m, p in zip(moved, packed, strict=True)) else moved

    def _pool(self, method, packed, mass, other, other_mass, *orders, horizon, fixed):
        """What each member's ``method`` gives, with its own horizon and fixed parameters."""
        for (name, f), p, q, h in zip(
            self._members(), packed, other, self._horizons(horizon), strict=True
        ):
            held = [parameter for parameter in f.parameter_names if f"{name}_{parameter}" in fixed]
            yield getattr(f, method)(p, mass, q, other_mass, *orders, horizon=h, fixed=held)

    def pooled(self, packed, mass, other, other_mass, horizon=None, fixed=()):
        parts = list(
            self._pool("pooled", packed, mass, other, other_mass, horizon=horizon, fixed=fixed)
        )
        return None if any(part is None for part in parts) else sum(parts)

    def pooled_orders(self, packed, mass, other, other_mass, orders, horizon=None, fixed=()):
        parts = list(
            self._pool(
                "pooled_orders", packed, mass, other, other_mass, orders,
                horizon=horizon, fixed=fixed,
            )
        )  # fmt: skip
        return None if any(part is None for part in parts) else sum(parts)

    def arranged_to_pool(self, packed, mass, other, other_mass, horizon=None, fixed=()):
        method = "arranged_to_pool"
        return tuple(
            self._pool(method, packed, mass, other, other_mass, horizon=horizon, fixed=fixed)
        )

    def log_joint(self, blocks, mass, packed):
        return sum(
            f.log_joint(self._part(blocks, name), mass, p)
            for (name, f), p in zip(self._members(), packed, strict=True)
        )

    def size(self, packed):
        sizes = [f.size(p) for f, p in zip(self.families, packed, strict=True)]
        if len({n_components for n_components, _ in sizes}) > 1:
            counts = {name: size[0] for name, size in zip(self.names, sizes, strict=True)}
            raise ValueError(f"Members with different numbers of components: {counts}.")
        return sizes[0][0], sum(n_columns for _, n_columns in sizes)

    def n_parameters(self, parameters):
        return sum(f.n_parameters(self._part(parameters, n)) for n, f in self._members())
