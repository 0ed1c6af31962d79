"""Raw data as people keep it: one module per layout, each with `recognise(folder)`. The layouts of annotation tools and
of published data sets are extensions.

catalogue.py    all layouts by name, those of extensions too
choosing.py     which of those that fit is taken
recognition.py  the layout of a folder, or the error for one that has none
layout_options.py what a user says of a folder, beside what lies in it
adjusting.py    fewer images, other values, other sizes, written anew
mattes.py       images and their alpha mattes
mask_problems.py what can be wrong with images and their masks
masks.py        image and mask folders
named_masks.py  masks that only their names tell from images
numbered.py     masks that number objects
folders.py      image-per-class folders
patterns.py     labels in the names of files
table.py        labels or boxes in a CSV file
table_problems.py  what can be wrong with its rows
csv_files.py    the rows and columns of such files
split_columns.py  which of their columns says the split
voc.py          Pascal VOC: palette masks, and XML boxes
coco.py         COCO JSON: boxes, masks and instances from polygons and run lengths
coco_json.py    the structure of COCO's files
coco_shapes.py  the pixels and the box of an annotation of COCO
coco_runs.py    COCO's run lengths: reading them, and painting pixels
yolo.py         YOLO text files
annotated.py    shapes that people drew, as boxes, masks, instances or classes
shapes.py       polygons, boxes, ellipses and painted pixels
fill.py         which pixels lie in an outline
advice.py          what to say of a folder that has no layout that is known
columns.py         which columns of a CSV file hold what, where their names do not say it
evidence.py        what the files themselves show
foreign.py         formats of annotations that no layout reads
groups.py          which images belong together, and are never divided between splits
jsons.py           JSON files that annotation tools wrote
label_lists.py     lists of images with a label each
labelimg.py        boxes in Pascal VOC's XML without its folders
legend.py          the legend of masks in colour
lookup.py          images by what tables call them
matching.py        which masks belong to which image, by the names of both
one_hot.py         tables with a column of 0 and 1 for each class, as ISIC's and Kaggle's are
roles.py           which folders hold images and which their masks, by the files in them
published.py       data sets that are known by the names of their folders
rivals.py          labels in two versions, and images in two formats
run_lengths.py     masks as run lengths in a table, as Kaggle's competitions have them
several.py         several masks for each image
sides.py           class folders that are perhaps two sides of the same images
split_lists.py     lists of images beside the data that divide it
split_problems.py  what can be wrong with such lists
stated_pairs.py    lists and tables that pair images with other masks than those of their names
table_boxes.py     the boxes of tables
typed.py           the door for what annotation tools write
unread.py          tables, lists, folders and archives beside the data that are not read
"""

from penstock.datasets.layouts.layout_options import LayoutOptions
from penstock.datasets.layouts.recognition import recognise

__all__ = ["LayoutOptions", "recognise"]
