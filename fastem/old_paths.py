"""Where modules were in version 0.1: what was documented there, or is named in a pickle.

``import fastem.sequences`` gives the module that is now ``fastem.data.sequences``, the same object.
"""

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec

#: Old names of modules of the package, and where their contents are now.
MOVED = {
    "compound_dirichlet": "dirichlet",
    "convergence": "stopping",
    "count_tables": "dirichlet.count_tables",
    "discrete_hmm": "hmm",
    "files": "saving.files",
    "gaussian_hmm": "hmm",
    "gaussian_mixture": "mixture",
    "gmm_hmm": "hmm",
    "hmm_stream": "hmm.stream",
    "kalman_filter": "kalman",
    "kalman_model": "kalman.model",
    "kalman_stream": "kalman.stream",
    "sequences": "data.sequences",
}


class _Finder:
    """Finds a module under its old name; both names are then the same module."""

    def __init__(self, package):
        self._package = package

    def find_spec(self, name, path=None, target=None):
        package, _, old = name.rpartition(".")
        if package != self._package or old not in MOVED:
            return None
        return ModuleSpec(name, _Loader(f"{package}.{MOVED[old]}"))


class _Loader:
    def __init__(self, new_name):
        self._new_name = new_name

    def create_module(self, spec):
        module = import_module(self._new_name)
        self._spec = module.__spec__
        return module

    def exec_module(self, module):
        # It has been executed, and the import system has just given it the spec of its old name.
        module.__spec__ = self._spec


def install(package: str) -> None:
    """Let ``import`` find what moved within ``package``."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder(package))
