"""Which kernels these are: a digest of their source, known without loading numba."""

import hashlib
from pathlib import Path


def _fingerprint():
    digest = hashlib.sha256()
    root = Path(__file__).parent
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


#: Of the source of all kernels.
FINGERPRINT = _fingerprint()
