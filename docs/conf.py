"""Sphinx configuration. The build needs no network: no intersphinx, no fonts, no downloads."""

import inspect
import os
import sys
import warnings
from pathlib import Path

# One BLAS thread, set before NumPy is imported: the matrices of the examples are small, and threads
# that wait for each other on a busy machine multiply the time.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import equations  # noqa: E402  # needs the path set above
import fields  # noqa: E402  # needs the path set above
import formulas  # noqa: E402  # needs the path set above
import parameters  # noqa: E402  # needs the path set above
import picture  # noqa: E402  # needs the path set above
import public_names  # noqa: E402  # needs the path set above
import records  # noqa: E402  # needs the path set above

import mercer  # noqa: E402  # one import block would hide that the line above comes first

project = "mercer"
author = "The mercer developers"
copyright = author
version = release = mercer.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "pictures", "auto_examples/**.ipynb", "auto_examples/**.py"]
templates_path = ["_templates"]
nitpicky = False

# ---------------------------------------------------------------- API pages
# Every public name gets its page from the module's __all__: nothing is listed by hand.
public_names.write_pages(HERE / "api" / "generated")
records.write_tables(HERE / "api" / "generated" / "records.txt")  # for model-files.md
autosummary_generate = True
autosummary_imported_members = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_rtype = False
# Attributes as fields: as objects of their own they would collide with the properties that have
# pages, and every "y" or "value" in a description would be taken for one of them.
napoleon_use_ivar = True
# Several names share a description, "kernel, loss : ...": as in the source, once and not for each.
shared = [(section, "params_style") for section in ("Parameters", "Attributes")]
napoleon_custom_sections = ["Formula", "Shape", "Shapes", "Contract", *shared]


def own_members(app, what, name, obj, skip, options):
    """Leave out what scikit-learn adds to every estimator: its texts refer to its own manual."""
    target = inspect.unwrap(obj) if callable(obj) else obj
    module = getattr(target, "__module__", None) or ""
    return True if module.startswith(("sklearn", "numpy")) else None


# ---------------------------------------------------------------- examples
warnings.filterwarnings("error", category=RuntimeWarning)
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"plot_",
    "abort_on_example_error": True,
    "plot_gallery": "True",
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 0,
    "within_subsection_order": "FileNameSortKey",
    "remove_config_comments": True,
}

# ---------------------------------------------------------------- pages
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
html_theme = "pydata_sphinx_theme"
html_title = f"mercer {version}"
html_theme_options = {
    "navbar_align": "left",
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["mercer.css"]
# Pages without pages below them have nothing to show beside them.
alone = ("index", "getting-started", "choosing", "benchmarks", "model-files", "notation")
html_sidebars = {page: [] for page in alone}


def setup(app):
    app.add_directive("picture", picture.Picture)
    app.connect("autodoc-skip-member", own_members)
    app.connect("doctree-read", fields.unlinked)
    app.connect("doctree-read", equations.set_as_mathematics)
    app.connect("autodoc-process-docstring", parameters.process, priority=300)
    app.connect("autodoc-process-docstring", formulas.process, priority=400)  # before napoleon
