"""Raw data as people keep it and as it is published: one module per layout, each with `recognise(folder)`.

choosing.py     all of them by name, and which of those that fit is taken
recognition.py  the layout of a folder, or the error for one that has none
layout_options.py what a user says of a folder, beside what lies in it
adjusting.py    fewer images, other values, other sizes, written anew
mattes.py       images and their alpha mattes
masks.py        image and mask folders
named_masks.py  masks that only their names tell from images
numbered.py     masks that number objects
folders.py      image-per-class folders
patterns.py     labels in the names of files
table.py        labels or boxes in a CSV file
csv_files.py    the rows and columns of such files
split_columns.py  which of their columns says the split
camvid.py       CamVid as SegNet's authors give it
cityscapes.py   Cityscapes, label ids to train ids
ade20k.py       ADE20K's scene parsing benchmark
pets.py         Oxford-IIIT Pet
penn_fudan.py   Penn-Fudan
voc.py          Pascal VOC: palette masks, and XML boxes
coco.py         COCO JSON: boxes, masks and instances from polygons and run lengths
coco_json.py    the structure of COCO's files
coco_shapes.py  the pixels and the box of an annotation of COCO
coco_runs.py    COCO's run lengths: reading them, and painting pixels
nifti.py        NIfTI volumes, as slices
yolo.py         YOLO text files
annotated.py    shapes that people drew, as boxes, masks, instances or classes; the next ones read them
shapes.py       polygons, boxes, ellipses and painted pixels
fill.py         which pixels lie in an outline
labelme.py      LabelMe JSON
cvat.py         CVAT XML
label_studio.py Label Studio JSON
supervisely.py  Supervisely projects
via.py          VGG Image Annotator JSON
createml.py     Create ML JSON
fiftyone.py     FiftyOne exports
hugging_face.py metadata.jsonl of Hugging Face's imagefolder
open_images.py  Open Images CSV
cifar.py        CIFAR-10 and CIFAR-100 in their binary format
tfrecords.py    TFRecords that others wrote
tfrecord_files.py  their records one by one
mnist.py        MNIST and its like in IDX files
advice.py          what to say of a folder that has no layout that is known
brush.py           pixels that were painted with Label Studio's brush
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
run_lengths.py     masks as run lengths in a table, as Kaggle's competitions have them
several.py         several masks for each image
sides.py           class folders that are perhaps two sides of the same images
split_lists.py     lists of images beside the data that divide it
table_boxes.py     the boxes of tables
typed.py           the door for what annotation tools write
unread.py          tables that lie beside the data and name its images, but are not read
"""

from penstock.datasets.layouts.layout_options import LayoutOptions
from penstock.datasets.layouts.recognition import recognise

__all__ = ["LayoutOptions", "recognise"]
