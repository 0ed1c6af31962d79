"""Settings as text: recipes in TOML, and what is given beside them. Without torch.

toml.py     to and from TOML, --set
building.py plain values to settings, and the errors of both
members.py  which setting is of which type, and members of unions
options.py  the options of train, as settings
checks.py   rules between fields, and what a resume may change
places.py   where custom parts and data lie
"""

from penstock.config.toml import apply, as_settings, dump, load, parse_settings, settings_in

__all__ = ["apply", "as_settings", "dump", "load", "parse_settings", "settings_in"]
