"""Sphinx: ``sphinx-build docs docs/_build``, with the extra ``docs`` installed."""

import fastem

project = "fastem"
author = "the fastem developers"
release = fastem.__version__
extensions = ["sphinx.ext.autodoc", "sphinx.ext.mathjax", "numpydoc", "myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
numpydoc_show_class_members = False
autodoc_default_options = {"members": True, "inherited-members": True}
html_theme = "alabaster"
