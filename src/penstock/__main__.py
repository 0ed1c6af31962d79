"""`python -m penstock` is `penstock`; torchrun needs it."""

from penstock.cli import command

command()
