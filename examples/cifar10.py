"""CIFAR-10 from its binary files, with a fast recipe after airbench: eight epochs.

python examples/cifar10.py BINARY WORK    BINARY holds data_batch_1.bin to data_batch_5.bin and test_batch.bin

docs/results.md has the resulting accuracy.
"""

import argparse
from pathlib import Path

import penstock as ps


def main():
    """Pack, train, and score the last weights on the test set with test-time augmentation."""
    parser = argparse.ArgumentParser()
    parser.add_argument("binary", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--steps", type=int, default=None, help="fewer than eight epochs, to try it")
    options = parser.parse_args()

    data = ps.pack(options.binary, options.work / "data")
    run = ps.train(
        data, model="cifar10-fast", steps=options.steps, runs=options.work / "runs",
        settings={"data.validation": "test"},
    )  # fmt: skip
    found = run.evaluate("test", checkpoint="last", flip=True, shift=1).scores.summary()
    print(f"top-1 accuracy {found['top1']:.1%}")


if __name__ == "__main__":
    main()
