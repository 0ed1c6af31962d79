"""Where records come from: one narrow seam, `Source`, and what stands behind it.

files.py     TFRecord shards on local disk, by path or glob
memory.py    the fake: records in a list, with faults on demand
waiting.py   how a source that waits learns that nobody wants what it reads any more
base.py      the seam between Penstock and the places where records are kept
"""

from penstock.sources.base import Prefetching, Source
from penstock.sources.files import FilesSource
from penstock.sources.memory import Fault, MemorySource

__all__ = ["Fault", "FilesSource", "MemorySource", "Prefetching", "Source"]
