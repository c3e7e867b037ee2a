"""The pages of the reference, one for each class and function, from fastem's table of names.

They are written to ``docs/reference`` before Sphinx reads the pages, and
``<!-- public names -->`` in ``docs/reference.md`` becomes the tables that lead to them. Where a
page for users has a public name in code font, the name becomes a link to its page.
"""

import inspect
import re
from importlib import import_module
from pathlib import Path

import fastem

#: What each package of estimators is called on the page, and what its methods return.
TITLES = {
    "mixture": "Mixtures",
    "hmm": "Hidden Markov models",
    "vhmm": "Variational hidden Markov models",
    "kalman": "Kalman filters",
    "dirichlet": "Dirichlet distributions",
    "mixture_of_models": "Mixtures of models",
    "families": "Families of components",
    "distributed": "Many machines",
    "callbacks": "Callbacks",
    "exceptions": "Warnings and errors",
    "plot": "Pictures",
    "functional": "Functions of arrays",
    "river": "River",
}

#: Classes of objects that methods return, in packages that do not export them.
RETURNED = {"hmm": ["stream.StateFilter"], "kalman": ["stream.KalmanStream"]}

#: What is reached through a method or another package, and in no table.
BESIDES = {
    "Streams of single observations": [
        "learner.Learner", "learner.PredictingLearner", "river.Clusterer", "river.AnomalyDetector",
    ],
}  # fmt: skip

#: Modules for those who change fastem or add a model to it.
FOR_DEVELOPERS = {
    "algebra", "base", "data", "drift", "kernels", "learning_rate", "matching", "model",
    "monitoring", "simulated", "statistics", "stopping",
}  # fmt: skip

#: Functions of the package by what they are for.
GROUPS = {
    "Merge and compare": [
        "combine", "average", "divergence", "upper_bound", "singleton_divergences",
    ],
    "Save and load": ["save", "load"],
    "Settings": ["Decay", "Lengths"],
    "In place of other libraries": ["patch", "unpatch"],
    "Compile ahead": ["warmup"],
    "Building blocks": ["ExponentialFamily", "Statistics"],
}  # fmt: skip

#: Methods that scikit-learn adds to every estimator, and describes.
SCIKIT_LEARNS = {"get_metadata_routing", "get_params", "set_params", "set_output"}


#: Folders of pages for users, whose names in code font are links.
FOR_USERS = ("start/", "guide/", "coming-from/")


def setup(app):
    app.connect("config-inited", _write_pages)
    app.connect("source-read", _insert_tables)
    app.connect("doctree-read", _link_names)
    # Its text follows from the table of names, which Sphinx does not watch.
    app.connect("env-get-outdated", lambda *_: ["reference"])
    return {"parallel_read_safe": True}


def _insert_tables(app, page, source):
    if "<!-- public names -->" in source[0]:
        text = "\n\n".join(_table(title, names) for title, names in sections())
        modules = "\n".join(f"fastem.{name} <reference/fastem.{name}>" for name in developers())
        text += "\n\n## For developers\n\n" + _DEVELOPERS
        text += f"\n\n```{{toctree}}\n:maxdepth: 1\n:caption: For developers\n\n{modules}\n```"
        source[0] = source[0].replace("<!-- public names -->", text)


def linkable():
    """The full name of what a text in code font stands for: full names, and short ones of classes
    and of the functions that are known without the name of their module."""
    full = [name for _, names in sections() for name in names]
    known = {name: name for name in full}
    for name in full:
        package, _, short = name.rpartition(".")
        is_known = package in ("fastem", "fastem.families") and short[0].isupper()
        if is_known or (package == "fastem" and short in GROUPS["Merge and compare"]):
            known[short] = name
    return known


def _link_names(app, tree):
    # Tests read this file without Sphinx.
    from docutils import nodes
    from sphinx import addnodes

    page = app.env.docname
    if not page.startswith(FOR_USERS):
        return
    known = linkable()
    for literal in list(tree.findall(nodes.literal)):
        match = re.match(r"([\w.]+)(?:\(.*)?$", literal.astext(), re.DOTALL)
        name = match and known.get(match[1])
        above = list(_ancestors(literal))
        inside = (nodes.reference, addnodes.pending_xref, nodes.title)
        if not name or any(isinstance(node, inside) for node in above):
            continue
        cell = next((node for node in above if isinstance(node, nodes.entry)), None)
        if page.startswith("coming-from/") and cell and cell.parent.index(cell) == 0:
            continue  # That is a name of the other library.
        link = addnodes.pending_xref(
            "", refdomain="py", reftype="obj", reftarget=name, refexplicit=True, refdoc=page,
            refwarn=True,
        )  # fmt: skip
        literal.replace_self(link)
        link += literal


def _ancestors(node):
    while node.parent is not None:
        node = node.parent
        yield node


_DEVELOPERS = (
    "What [a new model](adding-a-model.md) is built from: how the code is arranged is described "
    "in [Architecture](architecture.md). These modules change between versions."
)


# What is in the reference -----------------------------------------------------------------------


def sections():
    """Pairs of a title and the full names under it."""
    shown = {id(getattr(fastem, name)) for name in fastem.__all__}

    def others(package):
        """The public names of a module that have not been shown."""
        module = import_module(f"fastem.{package}")
        names = [name for name in module.__all__ if id(getattr(module, name)) not in shown]
        shown.update(id(getattr(module, name)) for name in names)
        return [f"fastem.{package}.{name}" for name in names]

    packages = list(dict.fromkeys(fastem.ESTIMATORS.values()))
    for package in packages:
        names = [f"fastem.{name}" for name, home in fastem.ESTIMATORS.items() if home == package]
        names += others(package)
        names += [f"fastem.{package}.{name}" for name in RETURNED.get(package, ())]
        yield TITLES.get(package, package), names
    grouped = [name for names in GROUPS.values() for name in names]
    for title, names in GROUPS.items():
        yield title, [f"fastem.{name}" for name in names if name in fastem.FUNCTIONS]
    if rest := [f"fastem.{name}" for name in fastem.FUNCTIONS if name not in grouped]:
        yield "More functions", rest
    for package in fastem.MODULES:
        if package not in packages and package not in FOR_DEVELOPERS and (names := others(package)):
            yield TITLES.get(package, f"fastem.{package}"), names
    for title, names in BESIDES.items():
        yield title, [f"fastem.{name}" for name in names]


def developers():
    """The modules for developers, each with the public names that are not shown elsewhere."""
    shown = {id(found(name)) for _, names in sections() for name in names}
    modules = {}
    for package in fastem.MODULES:
        module = getattr(fastem, package)
        names = [
            name for name in getattr(module, "__all__", ())
            if package in FOR_DEVELOPERS and id(getattr(module, name)) not in shown
        ]  # fmt: skip
        shown.update(id(getattr(module, name)) for name in names)
        if names:
            modules[package] = names
    return modules


def found(name):
    """The object of a full name."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            value = import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            value = getattr(value, part)
        return value
    raise LookupError(f"{name} is in the table of public names and does not exist.")


def members(kind):
    """The public methods and properties of a class that fastem defines and describes."""
    chosen = []
    for name in dir(kind):
        home = next(base for base in kind.__mro__ if name in vars(base))
        if name.startswith("_") or name in SCIKIT_LEARNS or name.endswith("_request"):
            continue
        if not home.__module__.startswith("fastem") and name not in kind.__dict__:
            continue
        value = inspect.getattr_static(kind, name)
        if isinstance(value, (property, classmethod, staticmethod)) or inspect.isfunction(value):
            if inspect.getdoc(getattr(kind, name)):
                chosen.append(name)
    return chosen


# Pages ------------------------------------------------------------------------------------------


def _table(title, names):
    """A heading, and a table with a row and a page for each name."""
    pages = "\n".join(f"reference/{name}" for name in names)
    rows = "\n".join(f"   ~{name}" for name in names)
    return (
        f"## {title}\n\n```{{eval-rst}}\n.. autosummary::\n   :nosignatures:\n\n{rows}\n```\n\n"
        f"```{{toctree}}\n:hidden:\n:caption: {title}\n\n{pages}\n```"
    )


def _write_pages(app, config):
    folder = Path(app.srcdir) / "reference"
    folder.mkdir(exist_ok=True)
    texts = {name: _page(name) for _, names in sections() for name in names}
    texts |= {f"fastem.{name}": _module(name, names) for name, names in developers().items()}
    for old in folder.glob("*.rst"):
        if old.stem not in texts:
            old.unlink()
    for name, text in texts.items():
        path = folder / f"{name}.rst"
        # What has not changed is not read again.
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def _page(name):
    title = name.rpartition(".")[2]
    value = found(name)
    lines = [title, "=" * len(title), ""]
    if inspect.isclass(value):
        lines += [*_class(name, value)]
    elif callable(value):
        lines += [f".. autofunction:: {name}"]
    else:
        lines += [f".. autodata:: {name}"]
    lines += ["", f".. minigallery:: {name}", "   :add-heading: Examples with pictures", ""]
    return "\n".join(lines)


def _class(name, kind):
    yield f".. autoclass:: {name}"
    family = fastem.families.Family
    if issubclass(kind, family) and kind not in (family, fastem.ExponentialFamily):
        yield from (
            "",
            "Models call its methods, which are those of :class:`fastem.families.Family`.",
        )
    elif chosen := members(kind):
        yield from ("", ".. rubric:: Methods and properties", "", ".. autosummary::", "")
        yield from (f"   ~{name}.{member}" for member in chosen)
        for member in chosen:
            static = inspect.getattr_static(kind, member)
            directive = "autoproperty" if isinstance(static, property) else "automethod"
            yield from ("", f".. {directive}:: {name}.{member}")


def _module(package, names):
    module = getattr(fastem, package)
    title = f"fastem.{package}"
    lines = [title, "=" * len(title), "", inspect.cleandoc(module.__doc__), ""]
    for name in names:
        value = getattr(module, name)
        full = f"{title}.{name}"
        if inspect.isclass(value):
            chosen = ", ".join(name for name in members(value) if name in vars(value))
            lines += [f".. autoclass:: {full}", *([f"   :members: {chosen}"] if chosen else []), ""]
        else:
            lines += [f".. {'autofunction' if callable(value) else 'autodata'}:: {full}", ""]
    return "\n".join(lines)
