"""What a recipe or a run folder names, opened: dataset, task, plan, feeds, model.

experiment.py a recipe to a dataset, a task, feeds and a model
run_data.py   data.json: what a run's data was, exactly
epochs.py  epochs to steps
sizing.py  defaults that follow from the data
advising.py  what would be trained by default, and why
machine.py  what this machine has for it
runs.py    a run folder to its parts and its weights
trusting.py  whether what a run or a recipe names may be imported
resolving.py  settings that somebody gave to a whole recipe
presets.py   defaults that depend on what is chosen
effects.py   which settings have an effect only beside others, or for some tasks
reference.py the settings with what they mean
published.py  defaults that follow from published weights
"""

from penstock.assembly.advising import Advice, advise
from penstock.assembly.epochs import steps_of
from penstock.assembly.experiment import Experiment, chosen_shuffle, notes, open_experiment
from penstock.assembly.machine import describe_machine
from penstock.assembly.presets import resolve
from penstock.assembly.reference import explained
from penstock.assembly.resolving import resolve_settings, settings_of_file
from penstock.assembly.runs import load_checkpoint, open_run
from penstock.assembly.trusting import settings_in, trust

__all__ = [
    "Advice",
    "Experiment",
    "advise",
    "chosen_shuffle",
    "describe_machine",
    "explained",
    "load_checkpoint",
    "notes",
    "open_experiment",
    "open_run",
    "resolve",
    "resolve_settings",
    "settings_in",
    "settings_of_file",
    "steps_of",
    "trust",
]
