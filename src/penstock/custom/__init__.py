"""Custom parts: `FILE.py:NAME` or `package.module:NAME` stands for the user's own object, wherever a setting names one.

The only room that imports or calls what a setting names, and that decides whether it may.
"""

from penstock.custom.calling import arguments_for, call, check_arguments, refuse_unknown
from penstock.custom.loading import load, load_admitted
from penstock.custom.place import Place, place_of

__all__ = ["Place", "arguments_for", "call", "check_arguments", "load", "load_admitted", "place_of", "refuse_unknown"]
