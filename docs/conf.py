"""Sphinx: ``sphinx-build -W --keep-going docs docs/_build``, with the extra ``docs`` installed.

Examples in ``gallery`` are executed, and an error in one fails the build. The pages of the
reference are written from the table of public names in ``fastem/__init__.py``.
"""

import sys
from pathlib import Path

import fastem

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "fastem"
author = "the fastem developers"
release = version = fastem.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "matplotlib.sphinxext.plot_directive",
    "mathml",
    "reference_pages",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = [
    "_build",
    "_extensions",
    "gallery",
    "pictures",
    "**/backreferences",
    "**sg_execution_times.rst",
]

# Pages ------------------------------------------------------------------------------------------

# Headings can be linked to, and mathematics is written, as on GitHub.
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_dmath_double_inline = True
html_math_renderer = "mathml"

html_theme = "pydata_sphinx_theme"
html_title = "fastem"
html_static_path = ["_static"]
html_css_files = ["fastem.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "fastem"},
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "show_nav_level": 1,
    "navigation_depth": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
}
# Pages without others beside them have nothing to show in the first column.
html_sidebars = {"index": [], "changelog": []}
copybutton_exclude = ".linenos, .gp, .go"

# Pictures and examples --------------------------------------------------------------------------

plot_formats = [("png", 160)]
plot_html_show_formats = False
plot_html_show_source_link = False
plot_rcparams = {"figure.constrained_layout.use": True, "font.size": 9}
plot_apply_rcparams = True

sphinx_gallery_conf = {
    "examples_dirs": ["gallery"],
    "gallery_dirs": ["auto_gallery"],
    # Examples of one kind have names that begin alike.
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "doc_module": ("fastem",),
    "reference_url": {"fastem": None},
    "backreferences_dir": "reference/backreferences",
    "remove_config_comments": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1e9,
    "capture_repr": (),
    "thumbnail_size": (400, 280),
    "image_srcset": ["2x"],
}

# Reference --------------------------------------------------------------------------------------

numpydoc_show_class_members = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"
# reference_pages writes the pages itself.
autosummary_generate = False
