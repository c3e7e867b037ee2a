"""Sphinx: ``sphinx-build docs docs/_build``, with the extra ``docs`` installed."""

import fastem

project = "fastem"
author = "the fastem developers"
release = fastem.__version__
extensions = ["sphinx.ext.autodoc", "sphinx.ext.mathjax", "numpydoc", "myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
# Headings can be linked to, as on GitHub.
myst_heading_anchors = 3
numpydoc_show_class_members = False
# The pages are written by hand; numpydoc loads the extension that would make some.
autosummary_generate = False
# What scikit-learn adds for the routing of metadata is described there, not here.
_requests = [
    f"set_{method}_request"
    for method in ("fit", "partial_fit", "predict", "predict_proba", "score", "transform",
                   "score_samples", "decode")
]  # fmt: skip
autodoc_default_options = {
    "members": True,
    "inherited-members": True,
    "exclude-members": ", ".join(["get_metadata_routing", *_requests]),
}
html_theme = "alabaster"
