"""Compiled kernels on disk: numba's cache, such that no file in it can stop a program.

Every file begins with a digest of what follows, so that one that was cut short or changed is known
before any of it is used; it is compiled anew and replaced. Where nothing can be written, kernels
are compiled in every process, and one warning says so.
"""

import hashlib
import pickle
from pathlib import Path

from numba.core.caching import FunctionCache, IndexDataCacheFile, NullCache

from ..notices import warn
from .fingerprint import FINGERPRINT

_DIGEST_SIZE = hashlib.sha256().digest_size


def cache_for(function, variant):
    """The cache of one kernel; one that keeps nothing if there is no place for files.

    Code is kept apart by ``variant``, what it was compiled with besides its source.
    """
    try:
        return _Cache(function, variant)
    except (OSError, RuntimeError) as error:  # the latter: numba has found no place
        _warn_of_no_cache(error)
        return NullCache()


class _Cache(FunctionCache):
    """Numba's cache on disk, keyed by every kernel's source.

    Numba looks only at the file of the function it compiles, and would go on using stale code
    after a change to a kernel that is compiled into it from another file.
    """

    def __init__(self, function, variant):
        super().__init__(function)
        self._variant = variant
        locator = self._impl.locator
        self._cache_file = _CheckedFiles(
            cache_path=locator.get_cache_path(),
            filename_base=self._impl.filename_base,
            source_stamp=locator.get_source_stamp(),
        )

    def _index_key(self, signature, codegen):
        return (*super()._index_key(signature, codegen), FINGERPRINT, self._variant)

    def save_overload(self, signature, data):
        try:
            super().save_overload(signature, data)
        except OSError as error:
            # The disk is full, or has been made read-only since.
            _warn_of_no_cache(error)


class _CheckedFiles(IndexDataCacheFile):
    """The files of one kernel: what cannot be read as it was written counts as not there."""

    def load(self, key):
        saved = self._read(self._data_path_of(key))
        # Two processes may have taken the same file for different signatures.
        return saved[1] if saved is not None and saved[0] == key else None

    def _data_path_of(self, key):
        name = self._load_index().get(key)
        return None if name is None else self._data_path(name)

    def _load_index(self):
        saved = self._read(self._index_path)
        if saved is None or saved[:2] != (self._version, self._source_stamp):
            return {}
        return saved[2]

    def _save_index(self, overloads):
        self._write(self._index_path, (self._version, self._source_stamp, overloads))

    def save(self, key, data):
        super().save(key, (key, data))

    def _save_data(self, name, data):
        self._write(self._data_path(name), data)

    def _read(self, path):
        """What was written to a file; None if it is not there, or not as it was written."""
        if path is None:
            return None
        try:
            content = Path(path).read_bytes()
            body = memoryview(content)[_DIGEST_SIZE:]
            if hashlib.sha256(body).digest() != content[:_DIGEST_SIZE]:
                return None
            return pickle.loads(body)
        except Exception:  # whatever unpickling raises for a class that is no more
            return None

    def _write(self, path, content):
        body = self._dump(content)
        with self._open_for_write(path) as file:
            file.write(hashlib.sha256(body).digest())
            file.write(body)


_warned = False


def _warn_of_no_cache(error):
    global _warned
    if _warned:
        return
    _warned = True
    warn(
        f"Compiled kernels cannot be kept on disk ({error}): every process compiles them anew, "
        "which takes seconds to a minute. Set the environment variable NUMBA_CACHE_DIR to a "
        "folder that can be written, or make space.",
        RuntimeWarning,
    )
