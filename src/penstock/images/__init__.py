"""Images without torch: headers, decoding, geometry, colour, drawing.

header.py     what a file's header says: format, size, orientation
codecs.py     JPEG and PNG to arrays, whole or reduced
jpeg.py       which warnings of libjpeg can be accepted, and the rows that are wanted
formats.py    TIFF, WebP, HEIC and others, as PNG
tiff.py       TIFF of many channels or pages
lossy.py      which formats change the ids of a mask
dicom.py      DICOM images, and series as volumes
planes.py     images of any number of channels in a PNG
pixels.py     channels and bits of pixels
png.py        masks that need no libpng; chunks: checksums, the still image of an animation, indices of a palette
geometry.py   affine maps, and the random draws that make them
warp.py       an affine map applied to an image and its mask
crops.py      crops of many small images at once
fetch.py      from encoded bytes to a view, decoding no more than it shows
threads.py    OpenCV's own threads, which rest while a pool's use it
color.py      photometric jitter as one matrix
drawing.py    palettes, overlays, image grids
degrade.py    blur and noise, as out-of-focus and dim images have them
distort.py    perspective and elastic distortions
intervals.py  regions of JPEGs with restart markers, cut out as bytes
palettes.py   the colours that data sets publish for their classes
upright.py    an image as a viewer shows it
"""

from penstock.images.codecs import decode_image, decode_mask
from penstock.images.fetch import fetch_image
from penstock.images.geometry import Affine, View
from penstock.images.header import ImageInfo, probe
from penstock.images.pixels import RGB, PixelFormat, shown
from penstock.images.threads import single_threaded
from penstock.images.upright import read_upright
from penstock.images.warp import warp_image, warp_mask

__all__ = [
    "RGB",
    "Affine",
    "ImageInfo",
    "PixelFormat",
    "View",
    "decode_image",
    "decode_mask",
    "fetch_image",
    "probe",
    "read_upright",
    "shown",
    "single_threaded",
    "warp_image",
    "warp_mask",
]
