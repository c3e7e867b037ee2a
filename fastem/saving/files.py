"""The file format: named arrays and their settings, written atomically.

A file is an ordinary ``.npz`` (a zip of ``.npy`` members, not compressed) with one member more,
``fastem.json``, that says what the file holds. :func:`numpy.load` opens the arrays without fastem.
Nothing is ever pickled, so reading a file runs no code that came with it.
"""

import contextlib
import errno
import io
import json
import math
import os
import stat
import struct
import zipfile
from typing import Any, NamedTuple

import numpy as np

from ..exceptions import FileError

try:
    import fcntl
except ImportError:  # Windows, which has no such locks: what a killed process leaves there stays
    fcntl = None

FORMAT = "fastem"
VERSION = 1
MANIFEST = "fastem.json"

_SUFFIX = ".npy"
#: How the names of files that are being written begin and end.
_TEMPORARY = (".fastem-writing-", ".tmp")
_CHUNK = 1 << 20
_ZIP_START = b"PK\x03\x04"
_NAME_OFFSET = 30  # where a zip writes the name of its first member
_ZIP_END = b"PK\x05\x06"
_ZIP_END_SIZE = 22

# What zipfile and numpy raise on bytes that are not what they should be.
_UNREADABLE = (
    zipfile.BadZipFile,
    EOFError,
    KeyError,
    OverflowError,
    RuntimeError,  # zipfile: encrypted, or (as NotImplementedError) too new
    TypeError,
    ValueError,
    struct.error,
)


class Contents(NamedTuple):
    """What one file holds."""

    kind: str
    settings: dict[str, Any]
    arrays: dict[str, np.ndarray]


def write(
    path: str | os.PathLike,
    kind: str,
    settings: dict[str, Any],
    arrays: dict[str, np.ndarray],
) -> None:
    """Save named arrays and their settings in one file, atomically.

    Whatever goes wrong, even if the machine crashes, ``path`` is either the old file or the new
    one, never a part of it.

    Parameters
    ----------
    path : str or os.PathLike
        Where to save. No suffix is added; a link is followed.
    kind : str
        What the file holds; a reader decides by it how to use the rest.
    settings : dict
        Strings, numbers, booleans, None, and lists and dicts of these. Tuples come back as lists
        and numpy scalars as Python ones.
    arrays : dict of str to numpy.ndarray
        Arrays of numbers or booleans, of any shape.

    Raises
    ------
    TypeError
        For a setting or an array that cannot be kept exactly; the message names it.
    FileError
        If ``path`` exists and is not an ordinary file.
    """
    # Everything that can be refused is refused before a file is touched.
    manifest = _manifest(kind, settings)
    members = {_member(name): _storable(name, array) for name, array in arrays.items()}
    target = os.path.realpath(os.fsdecode(path))
    mode = _mode(target)

    folder = os.path.dirname(target)
    with _temporary_file(target) as (temporary, file):
        if mode is not None:
            os.chmod(temporary, mode)
        _pack(file, manifest, members)
        file.flush()
        os.fsync(file.fileno())
        if fcntl is None:
            file.close()
        os.replace(temporary, target)
    _remove_abandoned(folder)


def read(path: str | os.PathLike) -> Contents:
    """Read a file that :func:`write` saved.

    Parameters
    ----------
    path : str or os.PathLike
        The file.

    Returns
    -------
    Contents
        The kind, the settings and the arrays, each array equal to the saved one to the bit.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    FileError
        If the file is not one of fastem's, is cut short or damaged, or is newer than this fastem.
    """
    path = os.fsdecode(path)
    with open(path, "rb") as file:
        with _open_archive(file, path) as archive:
            if MANIFEST not in archive.namelist():
                raise _foreign(path)
            size = os.fstat(file.fileno()).st_size
            kind, settings = _read_manifest(archive, size, path)
            _check_table(file, archive, size, path)
            arrays = {
                info.filename.removesuffix(_SUFFIX): _read_array(archive, info, size, path)
                for info in archive.infolist()
                if info.filename != MANIFEST
            }
    return Contents(kind, settings, arrays)


# Writing


def _manifest(kind, settings):
    if not isinstance(kind, str):
        raise TypeError(f"kind must be a string, not {type(kind).__name__}")
    if not isinstance(settings, dict):
        raise TypeError(f"settings must be a dict, not {type(settings).__name__}")
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "kind": kind,
        "settings": _encode(settings, "settings"),
    }
    return json.dumps(manifest, allow_nan=False, indent=1).encode("ascii")


def _encode(value, name):
    """Turn a setting into what JSON keeps exactly; ``name`` is its name in errors."""
    # Times are left out: their item() drops the unit, or turns NaT into None.
    scalar = isinstance(value, np.bool_ | np.integer | np.floating | np.str_)
    if scalar and not isinstance(value, np.timedelta64):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        # JSON has no word for these, and its finite numbers come back exactly.
        return float(value) if math.isfinite(value) else {"float": repr(float(value))}
    if isinstance(value, list | tuple):
        return [_encode(item, f"{name}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(
                    f"{name} has the key {key!r} of type {type(key).__name__}; "
                    "the keys of settings must be strings"
                )
        encoded = {key: _encode(item, f"{name}[{key!r}]") for key, item in value.items()}
        # A dict that looks like one of our own encodings is wrapped, to come back as it was.
        return {"dict": encoded} if encoded.keys() in ({"float"}, {"dict"}) else encoded
    hint = "; put it among the arrays" if isinstance(value, np.ndarray) else ""
    raise TypeError(
        f"{name} is of type {type(value).__name__}, which cannot be saved: a setting is a string, "
        f"a number, a boolean, None, or a list or dict of these{hint}"
    )


def _member(name):
    if not isinstance(name, str):
        raise TypeError(f"the name of an array must be a string, not {name!r}")
    member = name + _SUFFIX
    # A zip cuts names at NUL, and on some systems changes backslashes.
    if zipfile.ZipInfo(member).filename != member:
        raise ValueError(f"array {name!r} cannot be saved under this name; choose a plainer one")
    return member


def _storable(name, array):
    if not isinstance(array, np.ndarray | np.generic):
        raise TypeError(f"array {name!r} must be a numpy array, not {type(array).__name__}")
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError(f"array {name!r} is masked, and the mask would be lost; save it apart")
    if not _is_plain(array.dtype):
        raise TypeError(
            f"array {name!r} has dtype {array.dtype}, which cannot be saved: "
            "only numbers and booleans can"
        )
    return np.asarray(array)


def _is_plain(dtype):
    """Whether a dtype is one of numpy's own numbers or booleans, so never an object."""
    return dtype.kind in "biufc" and dtype.isbuiltin != 2


def _mode(target):
    """Return the permissions of the file to be replaced; None if there is no such file."""
    try:
        status = os.stat(target)
    except FileNotFoundError:
        return None
    # Replacing a directory fails late, and replacing /dev/null succeeds.
    if not stat.S_ISREG(status.st_mode):
        raise FileError(
            f"{target} exists and is not an ordinary file, so nothing can be saved there. "
            "Choose another path."
        )
    return stat.S_IMODE(status.st_mode)


@contextlib.contextmanager
def _temporary_file(target):
    """A new file in the folder of ``target``, its path and itself; removed if anything goes wrong.

    It is locked as long as it is open, so that other processes know that its writer is alive.
    """
    while True:
        name = f"{_TEMPORARY[0]}{os.urandom(8).hex()}{_TEMPORARY[1]}"
        path = os.path.join(os.path.dirname(target), name)
        with _opened(path, target) as file:
            try:
                # Another process may have taken it for abandoned before it was locked.
                if not _lock(file, wait=True) or os.path.exists(path):
                    yield path, file
                    return
            except BaseException:
                # Windows does not remove what is open.
                file.close()
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
                raise


def _opened(path, target):
    """A new file for writing; an error names what it is for."""
    try:
        return open(path, "xb")
    except OSError as error:
        error.filename = target
        raise


def _remove_abandoned(folder):
    """Remove temporary files of processes that were killed, but not if a writer may be alive."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if name.startswith(_TEMPORARY[0]) and name.endswith(_TEMPORARY[1]):
                path = os.path.join(folder, name)
                with contextlib.suppress(OSError), open(path, "r+b") as file:
                    if _lock(file, wait=False):
                        os.unlink(path)


def _lock(file, *, wait):
    """Lock an open file against other processes and threads; whether it is locked by this one."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:  # another has it, or this file system has no locks
        return False
    return True


def _pack(file, manifest, members):
    # A ZipInfo of our own carries a fixed date, so equal contents make equal files. The manifest
    # comes first, so that a file that was cut short can still be told from a foreign one.
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo(MANIFEST), manifest)
        for name, array in members.items():
            with archive.open(zipfile.ZipInfo(name), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


# Reading


def _open_archive(file, path):
    head = file.read(_NAME_OFFSET + len(MANIFEST))
    file.seek(0)
    try:
        archive = zipfile.ZipFile(file)
        # A cut can end in a whole zip that lay inside an array; that one does not start at 0.
        if any(info.header_offset == 0 for info in archive.infolist()):
            return archive
    except OSError as error:
        if error.errno != errno.EINVAL:  # a seek to where a broken table pointed
            raise
    except _UNREADABLE:
        pass
    if not head:
        raise _foreign(path, "it is empty")
    # The file may be too short even for its first header; compare what there is of it.
    if _ZIP_START.startswith(head[:4]) and MANIFEST.encode().startswith(head[_NAME_OFFSET:]):
        raise FileError(
            f"{path} is cut short: its end is missing, as after an interrupted copy or download. "
            "Copy it again from its source, or save the model again."
        )
    raise _foreign(path)


def _read_manifest(archive, size, path):
    data = _read_member(archive, archive.getinfo(MANIFEST), size, path)
    try:
        manifest = json.loads(data.tobytes())
    except (ValueError, RecursionError) as error:
        raise _damaged(path, f"{MANIFEST} is not JSON") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise _foreign(path)
    version = manifest.get("version")
    if type(version) is not int or version < 1:
        raise _damaged(path, f"{MANIFEST} has no valid version")
    # This is checked first, because the other entries may have another meaning in a newer format.
    if version > VERSION:
        raise FileError(
            f"{path} has format version {version}, and this fastem knows versions up to {VERSION}. "
            "Upgrade fastem (pip install --upgrade fastem) to read it."
        )
    try:
        kind, settings = manifest["kind"], _decode(manifest["settings"])
        if not isinstance(kind, str) or not isinstance(settings, dict):
            raise TypeError("the kind is a string, and the settings are a dict")
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(path, f"{MANIFEST} lacks its kind or its settings") from error
    return kind, settings


def _decode(value):
    if isinstance(value, list):
        return [_decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"float"}:
        return float(value["float"])
    if value.keys() == {"dict"}:
        value = value["dict"]
        if not isinstance(value, dict):
            raise TypeError("a wrapped dict must be a dict")
    return {key: _decode(item) for key, item in value.items()}


def _check_table(file, archive, size, path):
    """Refuse a table of members from which a changed byte has made an array vanish."""
    # zipfile does not compare the number of members with the one the zip states.
    file.seek(max(0, size - _ZIP_END_SIZE))
    end = file.read(_ZIP_END_SIZE)
    if end.startswith(_ZIP_END):
        (count,) = struct.unpack_from("<H", end, 10)
        if count not in (len(archive.infolist()), 0xFFFF):  # the latter stands for "too many"
            raise _damaged(path, "its table of arrays is not complete")
    for name in archive.namelist():
        if name != MANIFEST and not name.endswith(_SUFFIX):
            raise _damaged(path, f"{name} does not belong in it")


def _read_array(archive, info, size, path):
    # The checksum is verified over all bytes before any of them is interpreted.
    data = _read_member(archive, info, size, path)
    name = info.filename.removesuffix(_SUFFIX)
    header = io.BytesIO(data[:_CHUNK].tobytes())
    try:
        # Plain dtypes never need a later version of the header.
        if np.lib.format.read_magic(header) != (1, 0):
            raise ValueError("unknown version of the header")
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(header)
    except _UNREADABLE as error:
        raise _damaged(path, f"array {name!r} has no valid header") from error
    if not _is_plain(dtype):
        raise FileError(
            f"{path} holds array {name!r} of dtype {dtype}, which fastem neither saves nor loads: "
            "it could run code. Use only files that fastem saved."
        )
    offset = header.tell()
    if min(shape, default=0) < 0 or offset + math.prod(shape) * dtype.itemsize != data.size:
        raise _damaged(path, f"array {name!r} is not as long as its shape asks")
    try:
        # A view past the header avoids a second copy; numpy aligns the header to 64 bytes.
        return np.ndarray(shape, dtype, data, offset, order="F" if fortran else "C")
    except ValueError as error:
        raise _damaged(path, f"array {name!r} has an impossible shape") from error


def _read_member(archive, info, size, path):
    """Return the bytes of one member, verified against their checksum."""
    # Bounded by the file's own size, so that a broken table cannot ask for all memory.
    if info.compress_type != zipfile.ZIP_STORED or not (
        0 <= info.header_offset < size and info.file_size == info.compress_size <= size
    ):
        raise _damaged(path, f"{info.filename} is not stored the way fastem does")
    data = np.empty(info.file_size, np.uint8)
    view = memoryview(data)
    filled = 0
    try:
        with archive.open(info) as member:
            while count := member.readinto(view[filled : filled + _CHUNK]):
                filled += count
    except _UNREADABLE as error:
        raise _damaged(path, f"the bytes of {info.filename} have changed") from error
    if filled != data.size:
        raise _damaged(path, f"bytes of {info.filename} are missing")
    return data


def _foreign(path, why=None):
    because = f": {why}" if why else ""
    return FileError(
        f"{path} is not a fastem file{because}. Give the path of a file that fastem saved."
    )


def _damaged(path, what):
    return FileError(
        f"{path} is damaged: {what}. Copy it again from its source, or save the model again."
    )
