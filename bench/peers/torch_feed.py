"""torch's DataLoader with two worker processes, and torchvision's transforms."""

import glob

import timing
import torch
import windows
from torchvision.io import ImageReadMode, decode_jpeg, decode_png, read_file
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as F

torch.set_num_threads(1)


class Resized(torch.utils.data.Dataset):
    def __init__(self, images):
        self.images = images
        self.transform = v2.Compose([v2.RandomResizedCrop(224, antialias=False), v2.RandomHorizontalFlip()])

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.transform(decode_jpeg(read_file(self.images[i])))


class DeepLab(Resized):
    def __getitem__(self, i):
        image = decode_jpeg(read_file(self.images[i]))
        label = decode_png(read_file(self.images[i][:-3] + "png"), ImageReadMode.UNCHANGED)
        draw = lambda: torch.rand(()).item()  # noqa: E731
        y, x, h, w, to = windows.scaled_crop(draw, *image.shape[1:])
        image = F.resized_crop(image, y, x, h, w, list(to), antialias=False)
        label = F.resized_crop(label, y, x, h, w, list(to), interpolation=v2.InterpolationMode.NEAREST)
        border = [0, 0, 513 - to[1], 513 - to[0]]
        image, label = F.pad(image, border, [124.0, 116.0, 104.0]), F.pad(label, border, [255.0])
        if draw() < 0.5:
            image, label = F.horizontal_flip(image), F.horizontal_flip(label)
        return image, label


if __name__ == "__main__":
    data, scenario, count = timing.arguments()
    images = sorted(glob.glob(f"{data}/files/*.jpg"))
    dataset = Resized(images) if scenario == "a" else DeepLab(images)
    loader = torch.utils.data.DataLoader(
        dataset, timing.BATCH, shuffle=True, num_workers=2, persistent_workers=True, prefetch_factor=4
    )
    timing.measure(lambda: (b[0] if scenario == "b" else b for b in loader), count)
