"""Whether the workers of a cluster run the same fastem as the client."""

from __future__ import annotations

import fastem

from ..kernels.fingerprint import FINGERPRINT

__all__ = ["check_versions"]


def check_versions(client) -> None:
    """Raise ``RuntimeError`` if a worker has no fastem, or another version than this process.

    Models and statistics are sent as Python objects, whose meaning may change between versions: a
    worker with another version could silently compute something else.
    """
    here = fastem.__version__, FINGERPRINT
    # Workers that are lost in the meantime are ignored.
    answers = client.run(_question(), on_error="ignore")
    others = {worker: there for worker, there in answers.items() if there != here}
    if others:
        listed = "; ".join(f"{worker} has {_name(there)}" for worker, there in others.items())
        raise RuntimeError(
            f"Workers run another fastem than this client, which has {fastem.__version__}: "
            f"{listed}. Install the same version on all of them, and start them again."
        )


def _question():
    # A function within a function travels as code: a worker may lack this module.
    def version_and_kernels():
        try:
            import fastem
        except ImportError:
            return None
        try:
            from fastem.kernels.fingerprint import FINGERPRINT
        except ImportError:
            FINGERPRINT = None
        return fastem.__version__, FINGERPRINT

    return version_and_kernels


def _name(there):
    if there is None:
        return "none"
    version, _ = there
    return f"{version} with other kernels" if version == fastem.__version__ else version
