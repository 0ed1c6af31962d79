"""The run folder: a record of what was asked, where it ran and what came out, in plain files.

comparing.py    how runs differ, and which of their scores may be compared
conditions.py   which runs of a list fit conditions
edits.py        how the custom code of two runs differs, line by line
environment.py  what a run depends on besides its recipe
facts.py        what the scores of a run follow from
folder.py       `RunFolder`
listing.py      what there is to say of a run in a line, from the files in its folder
manifests.py    the manifest of a checkpoint
notes.py        the note and the tags of a run
paired.py       how two runs differ image by image
pruning.py      checkpoints that a run can do without
"""

from penstock.runs.environment import environment
from penstock.runs.folder import RunFolder

__all__ = ["RunFolder", "environment"]
