"""Settings as text: recipes in TOML, and what is given beside them. Without torch.

toml.py    to and from TOML, --set, and the errors of both
checks.py  rules between fields, and what a resume may change
places.py  where custom parts and data lie
"""

from penstock.config.toml import apply, dump, load, parsed, settings_in

__all__ = ["apply", "dump", "load", "parsed", "settings_in"]
