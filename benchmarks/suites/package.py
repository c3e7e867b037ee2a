"""asv suite of the import: names are loaded when first used."""

from __future__ import annotations

from . import measuring


class Import(measuring._NewProcess):
    """The package, and what its first estimator needs."""

    def timeraw_package(self):
        return "import fastem"

    def timeraw_first_estimator(self):
        return "import fastem; fastem.GaussianMixture"
