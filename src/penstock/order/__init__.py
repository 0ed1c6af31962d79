"""Which record comes at which position.

plan.py     Plan: one snapshot, epoch after epoch
chain.py    Chain: snapshot after snapshot of a topic that grows
"""

from penstock.order.chain import Chain, Stage, seen, trimmed
from penstock.order.plan import Plan, Shuffle

__all__ = ["Chain", "Plan", "Shuffle", "Stage", "seen", "trimmed"]
