"""The data sets of the paper's distributed experiment: from a folder, or from the network."""

from __future__ import annotations

import gzip
import zipfile
import zlib
from pathlib import Path

import numpy as np

__all__ = ["DataMissing", "load"]

#: The file of each data set in the data folder.
FILES = {
    "covtype": "covtype.npz",
    "fashion-mnist": "fashion-mnist/train-images-idx3-ubyte.gz",
    "cifar-10": "cifar-10.npy",
}


class DataMissing(Exception):
    """A data set is not in the folder, or could not be downloaded."""


def load(name: str, folder: Path | None) -> np.ndarray:
    """The rows of a data set, as they are stored: uint8 pixels, or 54 numbers of Covtype."""
    if folder is None:
        return _fetch(name)
    path = Path(folder) / FILES[name]
    if not path.exists():
        raise DataMissing(
            f"{name} is not in the data folder: {path} does not exist. Put it there, give another "
            "folder with --data DIR, or leave --data out to download it."
        )
    try:
        return READERS[name](path)
    except (OSError, EOFError, KeyError, ValueError, zlib.error, zipfile.BadZipFile) as error:
        raise DataMissing(
            f"{path} cannot be read as {name}: {error}. Put the whole file there again."
        ) from error


def _fetch(name):
    """By scikit-learn, which keeps a copy."""
    from sklearn.datasets import fetch_covtype, fetch_openml

    try:
        if name == "covtype":
            return fetch_covtype().data
        wanted = {"fashion-mnist": "Fashion-MNIST", "cifar-10": "CIFAR_10"}[name]
        X = fetch_openml(wanted, version=1, as_frame=False, parser="liac-arff").data
        return X.astype(np.uint8)
    except Exception as error:
        # Whatever the network, a proxy or the site may raise.
        raise DataMissing(
            f"{name} could not be downloaded ({type(error).__name__}: {error}). Where there is no "
            f"network, put {FILES[name]} into a folder and name it: fastem reproduce --full "
            "--data DIR. The other experiments need no data."
        ) from error


def _covtype(path):
    with np.load(path) as file:
        parts = [file["quantitative"].astype(np.float32)]
        for column, n_values in (("wilderness", 4), ("soil", 40)):
            parts.append(np.eye(n_values, dtype=np.float32)[file[column]])
    return np.concatenate(parts, axis=1)


def _fashion(path):
    with gzip.open(path) as file:
        content = file.read()
    magic, n_images, height, width = np.frombuffer(content, ">i4", 4)
    if magic != 2051:
        raise ValueError(f"it begins with {magic}, and files of images with 2051")
    return np.frombuffer(content, np.uint8, offset=16).reshape(n_images, height * width)


def _cifar(path):
    X = np.load(path, mmap_mode="r")
    if X.ndim != 2 or X.shape[1] != 3072:
        raise ValueError(f"its shape is {X.shape}, not (n, 3072)")
    return X


READERS = {"covtype": _covtype, "fashion-mnist": _fashion, "cifar-10": _cifar}
