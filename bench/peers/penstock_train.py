"""penstock train in this process; prints the largest resident memory in MiB."""

import resource
import sys

from penstock.cli import main

if __name__ == "__main__":
    sys.argv[0] = "penstock"
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
