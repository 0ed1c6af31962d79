"""A layout of one's own: `penstock pack FOLDER -o DATA --layout examples/own_parts/my_layout.py:recognise`."""

from penstock import Item, Labels, Layout


def recognise(folder):
    """Images whose class is the first letter of their name."""
    images = sorted(folder.glob("*.jpg"))
    classes = tuple(sorted({path.name[0] for path in images}))
    items = [Item("train", path.stem, path, label=classes.index(path.name[0])) for path in images]
    return Layout("classification", "first letters", ("the names say so",), tuple(items), Labels(classes))
