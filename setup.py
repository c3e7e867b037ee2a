"""Finds the packages: ``kernels`` at the top of the tree is imported as ``fastem.kernels``."""

from setuptools import find_packages, setup

setup(
    packages=[
        *find_packages(include=["fastem", "fastem.*"]),
        *(f"fastem.{name}" for name in find_packages(include=["kernels", "kernels.*"])),
    ],
    package_dir={"fastem": "fastem", "fastem.kernels": "kernels"},
)
