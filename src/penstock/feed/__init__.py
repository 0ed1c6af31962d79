"""Plan + source + prepare -> batches, worked out ahead of the device by ordered threads.

prepare.py    the seam: what turns one record into one row of the batch
draws.py      the random numbers of samples
decoded.py    the decoded records of a split that is small, from which samples are gathered
batch.py      what comes out: Batch, Sample
fingerprint.py    whether it is what it was
slots.py      the memory of batches, used again once nobody looks at it
feed.py       Feed: who works on what, in which order, and how it ends
stalling.py       a batch that does not come
"""

from penstock.feed.batch import Batch
from penstock.feed.feed import Feed
from penstock.feed.fingerprint import changed, fingerprint
from penstock.feed.prepare import Composing, Field, Gathering, Prepare

__all__ = ["Batch", "Composing", "Feed", "Field", "Gathering", "Prepare", "changed", "fingerprint"]
