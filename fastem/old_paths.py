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
    """Finds a module under its old name, and loads it: both names are then the same module."""

    def find_spec(self, name, path=None, target=None):
        package, _, old = name.rpartition(".")
        return ModuleSpec(name, self) if package == __package__ and old in MOVED else None

    def create_module(self, spec):
        module = import_module(f".{MOVED[spec.name.rpartition('.')[2]]}", __package__)
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module):
        # It has been executed, and the import system has just given it the spec of its old name.
        module.__spec__ = module.__spec__.loader_state


def install() -> None:
    """Let ``import`` find the modules that moved."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())
