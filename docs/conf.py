"""Sphinx: ``sphinx-build docs docs/_build``, with the extra ``docs`` installed."""

import inspect
from importlib import import_module

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

# The reference, from the table of public names --------------------------------------------------


def setup(app):
    app.connect("source-read", _insert_reference)


def _insert_reference(app, page, source):
    source[0] = source[0].replace("<!-- public names -->", "\n\n".join(_reference()))


#: Classes of objects that methods return, in packages that do not export them.
_RETURNED = {"hmm": ["stream.StateFilter"], "kalman": ["stream.KalmanStream"]}


def _reference():
    """Sections of Markdown: the estimators of each package, functions, and modules."""
    shown = {id(getattr(fastem, name)) for name in fastem.__all__}

    def others(module):
        """The public names of a module that have not been shown."""
        names = getattr(module, "__all__", ())
        names = [name for name in names if id(getattr(module, name)) not in shown]
        shown.update(id(getattr(module, name)) for name in names)
        return [_entry(f"{module.__name__}.{name}", getattr(module, name)) for name in names]

    packages = list(dict.fromkeys(fastem.ESTIMATORS.values()))
    for package in packages:
        module = import_module(f"fastem.{package}")
        names = [name for name, home in fastem.ESTIMATORS.items() if home == package]
        entries = [_entry(f"fastem.{name}", getattr(fastem, name)) for name in names]
        returned = [
            f".. autoclass:: fastem.{package}.{name}" for name in _RETURNED.get(package, ())
        ]
        yield _section(module, [*entries, *others(module), *returned])
    yield "## Functions and values"
    yield _block([_entry(f"fastem.{name}", getattr(fastem, name)) for name in fastem.FUNCTIONS])
    for name in fastem.MODULES:
        if name not in packages and (entries := others(getattr(fastem, name))):
            yield _section(getattr(fastem, name), entries)


def _section(module, entries):
    return f"## `{module.__name__}`\n\n{_in_markdown(module.__doc__)}\n\n{_block(entries)}"


def _in_markdown(docstring):
    """The first paragraph of a docstring, in Markdown."""
    first = inspect.cleandoc(docstring).partition("\n\n")[0]
    return first.replace("``", "`").replace(":mod:`", "`").replace(":func:`", "`")


def _entry(name, value):
    if inspect.isclass(value):
        return f".. autoclass:: {name}"
    return f".. autofunction:: {name}" if callable(value) else f".. autodata:: {name}"


def _block(entries):
    return "```{eval-rst}\n" + "\n".join(entries) + "\n```"
