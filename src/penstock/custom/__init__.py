"""Custom parts: `FILE.py:NAME` or `package.module:NAME` stands for the user's own object, wherever a setting names one.

The only room that imports or calls what a setting names, and that decides whether it may.

calling.py    custom objects looked at and called
carried.py    the custom code that a run or a dataset carries below code/: copies of the files that settings name
importing.py  Python files as modules
loading.py    custom objects by their places
import_path.py where a custom object is
trust.py      what this user lets Penstock execute
"""

from penstock.custom.calling import arguments_for, call, check_arguments, refuse_unknown
from penstock.custom.import_path import ImportPath, import_path_of, import_path_of_object
from penstock.custom.loading import load, load_admitted

__all__ = [
    "ImportPath",
    "arguments_for",
    "call",
    "check_arguments",
    "import_path_of",
    "import_path_of_object",
    "load",
    "load_admitted",
    "refuse_unknown",
]
