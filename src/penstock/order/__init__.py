"""Which record comes at which position.

plan.py     Plan: one snapshot, epoch after epoch
chain.py    Chain: snapshot after snapshot of a topic that grows
repeats.py  Repeats: how often every record comes in an epoch
"""

from penstock.order.chain import Chain, Stage, seen, trimmed
from penstock.order.plan import Plan, Shuffle
from penstock.order.repeats import Repeats, repeat_factors, whole_counts

__all__ = ["Chain", "Plan", "Repeats", "Shuffle", "Stage", "repeat_factors", "seen", "trimmed", "whole_counts"]
