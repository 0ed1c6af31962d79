"""The run folder: a record of what was asked, where it ran and what came out, in plain files."""

from penstock.runs.environment import environment
from penstock.runs.folder import RunFolder

__all__ = ["RunFolder", "environment"]
