"""The documentation as a site: `make docs` writes it to docs/_build/html. Warnings are errors."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import generate

import penstock

generate.write(Path(__file__).parent / "reference")

project = "Penstock"
author = "The Penstock developers"
version = release = penstock.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.intersphinx"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_class_signature = "separated"
napoleon_google_docstring = True
napoleon_use_ivar = True
intersphinx_mapping = {}
html_theme = "furo"
html_title = "Penstock"
html_static_path = ["_static"]
html_css_files = ["style.css"]
nitpicky = False
