"""``python -m fastem.patch script.py [args]``: run a script with fastem's classes in place.

As ``python script.py [args]`` after :func:`fastem.patch`; ``-m module`` instead of a script runs a
module, and ``--verbose`` before it says which class went where. The module can be called, like the
function of its name: ``import fastem.patch`` leaves ``fastem.patch()`` as it was.
"""

from __future__ import annotations

import sys
from types import ModuleType

__all__ = []


class _Callable(ModuleType):
    """A module that is called like the function of its name."""

    def __call__(self):
        """As the function."""
        from .patching import patch

        return patch()


def _main(arguments):
    import logging
    import runpy
    from pathlib import Path

    from .patching import patch

    if arguments[:1] == ["--verbose"]:
        logging.basicConfig(format="%(message)s")
        logging.getLogger("fastem.patch").setLevel(logging.INFO)
        arguments = arguments[1:]
    is_module = arguments[:1] == ["-m"]
    if len(arguments) < 1 + is_module or arguments[0] in ("-h", "--help"):
        print("usage: python -m fastem.patch [--verbose] (script.py | -m module) [arguments]")
        return 0 if arguments[:1] in (["-h"], ["--help"]) else 2
    patch()
    if is_module:
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        # As Python itself does: modules beside the script are found.
        sys.path[0] = str(Path(arguments[0]).resolve().parent)
        runpy.run_path(arguments[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))

sys.modules[__name__].__class__ = _Callable
