from __future__ import annotations

import cv2
import numpy as np
import pytest
from support.images import make_image

from penstock.images import drawing

FONT = cv2.FONT_HERSHEY_SIMPLEX


def written(image, text, at, ink):
    cv2.putText(image, text, at, FONT, 0.4, ink, 1, cv2.LINE_AA)
    return image


def test_a_caption_is_white_on_a_dark_bar_below():
    image = np.full((40, 105, 3), 9, np.uint8)
    for text, lines in [
        ("as long as it", ["as long as it"]),
        ("exactly fiftee!", ["exactly fiftee!"]),  # 15 letters of 7 pixels
        ("one letter more!", ["one letter", "more!"]),
        ("a/name/without/a/space.jpg", ["a/name/without/", "a/space.jpg"]),
        ("more than three lines have room for in all", ["more than three", "lines have room", "for in all"]),
        ("more than three lines have room for in all of it", ["more than three", "lines have room", "for in all..."]),
    ]:
        bar = np.full((18 * len(lines), 105, 3), 32, np.uint8)
        for number, line in enumerate(lines):
            written(bar, line, (4, 18 * number + 13), (255, 255, 255))
        assert np.array_equal(drawing.caption(image, text), np.vstack([image, bar])), text
    assert drawing.caption(np.zeros((4, 8, 3), np.uint8), "abcdefgh").shape == (4 + 36, 8, 3)
    assert drawing.caption(np.zeros((4, 8, 3), np.uint8), "").shape == (4 + 18, 8, 3)


@pytest.mark.parametrize("count", [2, 3, 5])
def test_words_of_boxes_at_one_place_do_not_hide_each_other(count):
    blank = np.zeros((200, 200, 3), np.uint8)
    edges = np.array([(30, 40, 90, 180)] * count, np.float32)
    drawn = drawing.boxes(blank, edges, np.arange(count), ["mug 9%"] * count)
    (width, height), base = cv2.getTextSize("mug 9%", FONT, 0.4, 1)
    colors = drawing.palette(drawing.OBJECTS)

    for number in range(count):  # one below the other, each with a whole ground
        top = 40 + number * (height + base + 3) - height - base - 2
        column = drawn[top : top + height + base + 3, 29 + width + 3]
        assert (column == colors[number]).all()


def test_words_that_have_no_room_stay_where_they_are():
    blank = np.zeros((40, 60, 3), np.uint8)
    drawn = drawing.boxes(blank, np.array([(0, 20, 50, 38)] * 4, np.float32), np.arange(4), ["mug"] * 4)

    assert (drawn == drawing.palette(drawing.OBJECTS)[3]).all(axis=2).any()


def test_a_legend_has_a_square_and_a_name_for_each_class():
    names, colors = ["road", "sky", "a longer name"], drawing.palette()
    expected = np.full((2 * 18 + 6, 300, 3), 240, np.uint8)
    for name, color, (x, y) in zip(names, colors.tolist(), [(6, 6), (138, 6), (6, 24)], strict=False):
        cv2.rectangle(expected, (x, y), (x + 11, y + 11), color, cv2.FILLED)
        written(expected, name, (x + 16, y + 10), (0, 0, 0))

    assert np.array_equal(drawing.legend(names, colors, 300), expected)  # 132 pixels each: two fit beside each other
    assert drawing.legend(names, colors, 264).shape == (2 * 18 + 6, 264, 3)
    assert drawing.legend(names, colors, 263).shape == (3 * 18 + 6, 263, 3)
    assert drawing.legend(names, colors, 5).shape == (3 * 18 + 6, 5, 3)


@pytest.mark.parametrize(
    ("label", "box", "at"),
    [
        (2, (30, 40, 90, 80), (29, 40)),  # above the box
        (0, (30, 3, 90, 80), (29, None)),  # within the box, where there is no room above
        (2, (180, 40, 199, 80), (None, 40)),  # further to the left
        (3, (-9, 40, 20, 80), (0, 40)),  # further to the right
    ],
)
def test_boxes_are_drawn_with_a_word_on_their_colour(label, box, at):
    blank = np.full((100, 200, 3), 7, np.uint8)
    color = drawing.palette(drawing.OBJECTS)[label].tolist()
    (width, height), base = cv2.getTextSize("mug 9%", FONT, 0.4, 1)
    x = 200 - width - 4 if at[0] is None else at[0]
    y = height + base + 2 if at[1] is None else at[1]
    expected = blank.copy()
    cv2.rectangle(expected, box[:2], box[2:], color, 2)
    plain = expected.copy()
    cv2.rectangle(expected, (x, y - height - base - 2), (x + width + 3, y), color, cv2.FILLED)
    luma = 0.299 * color[0] + 0.587 * color[1] + 0.114 * color[2]
    written(expected, "mug 9%", (x + 2, y - base), (0, 0, 0) if luma > 140 else (255, 255, 255))

    edges, labels = np.array([box], np.float32), np.array([label])
    assert np.array_equal(drawing.boxes(blank, edges, labels), plain)
    assert np.array_equal(drawing.boxes(blank, edges, labels, ["mug 9%"]), expected)


def test_mattes_are_gray_or_lay_their_image_over_green():
    shares = np.array([[0, 51, 255]], np.uint8)
    image = np.array([[[10, 20, 30], [100, 150, 200], [7, 8, 9]]], np.uint8)

    assert np.array_equal(drawing.gray(shares), [[[0, 0, 0], [51, 51, 51], [255, 255, 255]]])
    assert np.array_equal(drawing.composed(image, shares), [[[0, 177, 64], [20, 172, 91], [7, 8, 9]]])


def test_objects_have_no_background():
    objects, classes = drawing.palette(drawing.OBJECTS), drawing.palette(7)

    assert objects[0].tolist() == classes[1].tolist() == [230, 25, 75]
    assert classes[0].tolist() == [60, 70, 80]
    assert classes[7].tolist() == [255, 255, 255]
    assert objects[255].tolist() == drawing.palette_of("voc", 255)[255].tolist()
    assert np.array_equal(drawing.palette_of("distinct", 7), classes)


def test_the_datas_own_colours_come_first():
    own = [(1, 2, 3), (250, 128, 7)]
    colors = drawing.palette(255, own)

    assert colors[:3].tolist() == [[1, 2, 3], [250, 128, 7], drawing.palette(255)[2].tolist()]
    assert colors[255].tolist() == [255, 255, 255]
    assert np.array_equal(drawing.palette_of("auto", 255, own), colors)
    assert np.array_equal(drawing.palette_of("auto", 255), drawing.palette(255))
    assert np.array_equal(drawing.palette_of("distinct", 255, own), drawing.palette(255))


@pytest.mark.parametrize("count", [20, 21])
def test_of_many_objects_the_narrow_ones_have_no_word(count):
    """White outlines, and words where they fit: all twenty have one, of twenty-one those that are wide enough."""
    image = np.full((400, 600, 3), 100, np.uint8)
    masks = [np.zeros((400, 600), bool) for _ in range(count)]
    for number, mask in enumerate(masks[:-1]):
        mask[40 + 50 * (number // 5) : 70 + 50 * (number // 5), 20 + 60 * (number % 5) :][:, :20] = True
    masks[-1][300:380, 20:220] = True
    bare = drawing.instances(image, masks, [0] * count, classes=2)
    drawn = drawing.instances(image, masks, [0] * count, ["cell 0.99"] * count, classes=2)
    changed = (bare != drawn).any(axis=2)
    assert changed[280:320, 20:100].any()
    assert changed[:280].any() == (count == 20)
    for mask in masks:
        inside = cv2.erode(mask.astype(np.uint8), np.ones((3, 3), np.uint8)) > 0
        assert (bare[mask & ~inside] == 255).all()


@pytest.mark.parametrize(("classes", "hues"), [(1, (0, 1, 2)), (2, (0, 0, 0))])
def test_objects_of_a_single_class_have_a_colour_each(classes, hues):
    image = np.full((60, 300, 3), 100, np.uint8)
    masks = [np.zeros((60, 300), bool) for _ in range(3)]
    for number, mask in enumerate(masks):
        mask[20:50, 20 + 90 * number :][:, :70] = True
    drawn = drawing.instances(image, masks, [0, 0, 0], ["a"] * 3, classes=classes)
    colors = drawing.palette(drawing.OBJECTS).astype(int)
    for number, hue in enumerate(hues):
        assert np.array_equal(drawn[45, 80 + 90 * number], (100 + colors[hue]) // 2)
        tag = drawn[5:19, 19 + 90 * number : 24 + 90 * number]
        assert (tag == colors[hue]).all(axis=2).any()


def test_the_background_is_the_class_of_that_name():
    found = [drawing.background_of(names) for names in (("a", "Background", "b"), ("background",), ("ground", "a"), ())]
    assert found == [1, 0, None, None]


def test_images_are_fitted_with_both_sides_at_least_a_pixel():
    wide = np.random.default_rng(0).integers(0, 256, (2, 400, 3), np.uint8)

    assert drawing.fit(wide, 100).shape == (1, 100, 3)
    assert drawing.fit(wide.transpose(1, 0, 2), 100).shape == (100, 1, 3)
    means = wide.reshape(1, 2, 100, 4, 3).mean(axis=(1, 3))
    assert np.abs(drawing.fit(wide, 100) - means).max() <= 1


def test_more_classes_than_colours_have_a_legend():
    from penstock.images import drawing
    from penstock.images.drawing import legend

    assert legend([f"c{n}" for n in range(300)], drawing.palette(-1), 600).shape[1] == 600


def test_captions_lose_their_end_not_their_name():
    narrow = np.zeros((5, 100, 3), np.uint8)
    name = 28 * "a" + "leaf_001.jp"  # two whole lines, and as much as fits beside the dots

    assert np.array_equal(drawing.caption(narrow, name + 50 * "y"), drawing.caption(narrow, name + 50 * "z"))
    assert not np.array_equal(drawing.caption(narrow, "x" + name + 50 * "y"), drawing.caption(narrow, name + 50 * "y"))


class TestDrawing:
    def test_palette_tells_classes_apart(self):
        colors = drawing.palette().astype(int)
        near = [np.abs(colors[a] - colors[b]).sum() for a in range(20) for b in range(a)]

        assert min(near) > 50
        assert len({tuple(color) for color in colors.tolist()}) >= 250
        assert colors[255].tolist() == [255, 255, 255]

    def test_sheets_hold_every_tile(self):
        tiles = [np.full((10 + i, 20, 3), i, np.uint8) for i in range(5)]
        sheet = drawing.sheet(tiles, 2)

        assert {i for i in range(5) if (sheet == i).all(axis=2).sum() >= 20 * (10 + i)} == set(range(5))

    def test_rows_and_columns_are_as_large_as_their_largest_tile(self):
        sizes = [(4, 9), (7, 3), (2, 5), (3, 3), (5, 4)]
        tiles = [np.full((*size, 3), number, np.uint8) for number, size in enumerate(sizes)]
        ground = drawing.sheet(tiles, columns=2)
        assert ground.shape == (6 + 7 + 6 + 3 + 6 + 5 + 6, 6 + 9 + 6 + 3 + 6, 3)
        places = [(6, 6), (6, 21), (19, 6), (19, 21), (28, 6)]
        for number, ((y, x), (height, width)) in enumerate(zip(places, sizes, strict=True)):
            assert (ground[y : y + height, x : x + width] == number).all()
        assert (ground == 240).all(axis=2).sum() == ground[..., 0].size - sum(h * w for h, w in sizes)

    def test_captions_and_fits(self):
        image = make_image(100, 200)

        assert drawing.caption(image, "x" * 500).shape == (100 + 3 * 18, 200, 3)
        assert drawing.fit(image, 50).shape == (25, 50, 3)
        assert np.array_equal(drawing.fit(image, 500), image.repeat(2, axis=0).repeat(2, axis=1))
        assert np.array_equal(drawing.fit(image, 399), image)
        assert drawing.legend(["a", "b"], drawing.palette(), 100).shape[1] == 100

    @pytest.mark.parametrize("box", [(10, 40, 60, 80), (10, 0, 60, 80), (150, 40, 199, 80), (-20, -20, 5, 99)])
    def test_words_of_boxes_are_to_be_seen_whole(self, box):
        """In black on the class's colour, which covers as much wherever the box is."""
        blank = np.full((100, 200, 3), 7, np.uint8)
        edges, labels = np.array([box], np.float32), np.array([2])
        plain, named = (drawing.boxes(blank, edges, labels, words) for words in ((), ["a name 33%"]))
        color = drawing.palette(drawing.OBJECTS)[2]
        ink = (named != plain).any(axis=2)
        rows, columns = np.flatnonzero(ink.any(axis=1)), np.flatnonzero(ink.any(axis=0))

        tag = named[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
        assert (tag == color).all(axis=2).sum() > 300
        assert (tag.sum(axis=2) < int(color.sum()) - 200).sum() > 50
        assert rows[-1] - rows[0] >= 12
        assert columns[-1] - columns[0] >= 60
        assert np.array_equal(drawing.palette(drawing.OBJECTS)[0], (230, 25, 75))

    def test_overlay_marks_borders(self):
        ids = np.zeros((10, 10), np.uint8)
        ids[5:] = 1
        colors = drawing.palette()
        shown = drawing.overlay(np.full((10, 10, 3), (200, 0, 0), np.uint8), ids, colors)

        assert (shown[4] == colors[0]).all()
        assert (shown[5] == colors[1]).all()
        gray = 0.299 * 200
        assert np.abs(shown[6:] - (0.5 * colors[1] + 0.5 * gray)).max() <= 1, "the image's own colour is gone"
        turned = drawing.overlay(np.full((10, 10, 3), (200, 0, 0), np.uint8), ids.T, colors)
        assert np.array_equal(turned, shown.transpose(1, 0, 2))

    def test_overlay_leaves_the_background_as_it_is(self):
        ids = np.zeros((10, 10), np.uint8)
        ids[5:] = 1
        image = np.random.default_rng(0).integers(0, 256, (10, 10, 3), np.uint8)
        plain, shown = (drawing.overlay(image, ids, drawing.palette(), background=id_) for id_ in (None, 0))

        assert np.array_equal(shown[:5], image[:5])
        assert np.array_equal(shown[5:], plain[5:])
