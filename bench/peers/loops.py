"""Three ways to train without Penstock, as their users write them: loops.py LOOP CAMVID HOW

Images come through torch's DataLoader with two worker processes and the transforms of torchvision's reference.
Prints the median seconds of a step and the largest resident memory of the training process, workers not counted.
"""

import json
import resource
import statistics
import sys
import time
from pathlib import Path

import segmentation_models_pytorch as smp
import torch
from torch import nn
from torchvision import tv_tensors
from torchvision.io import ImageReadMode, decode_image, read_file
from torchvision.transforms import v2

CLASSES, IGNORED = 11, 11
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Images(torch.utils.data.Dataset):
    def __init__(self, folder, crop, scale):
        self.images = sorted((folder / "images" / "train").iterdir())
        self.masks = sorted((folder / "masks" / "train").iterdir())
        height = decode_image(read_file(str(self.images[0]))).shape[1]
        self.transform = v2.Compose(
            [
                v2.RandomResize(int(scale[0] * height), int(scale[1] * height), antialias=True),
                v2.RandomHorizontalFlip(0.5),
                v2.RandomCrop(
                    tuple(crop), pad_if_needed=True, fill={tv_tensors.Image: (124, 116, 104), tv_tensors.Mask: IGNORED}
                ),
                v2.ToDtype({tv_tensors.Image: torch.float32, "others": None}, scale=True),
                v2.Normalize(MEAN, STD),
            ]
        )

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        image = tv_tensors.Image(decode_image(read_file(str(self.images[i])), ImageReadMode.RGB))
        mask = tv_tensors.Mask(decode_image(read_file(str(self.masks[i])), ImageReadMode.UNCHANGED)[0])
        image, mask = self.transform(image, mask)
        return image.as_subclass(torch.Tensor), mask.as_subclass(torch.Tensor).long()


def made(channels_last):
    model = smp.DeepLabV3Plus("tu-resnet18", encoder_weights=None, classes=CLASSES)
    model = model.to(memory_format=torch.channels_last) if channels_last else model
    return model.train(), torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)


def forever(loader):
    while True:
        yield from loader


def plain(loader, steps, channels_last=False):
    model, optimizer = made(channels_last)
    batches, seconds = forever(loader), []
    for _ in range(steps):
        began = time.perf_counter()
        images, masks = next(batches)
        if channels_last:
            images = images.contiguous(memory_format=torch.channels_last)
        loss = nn.functional.cross_entropy(model(images), masks, ignore_index=IGNORED)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seconds.append(time.perf_counter() - began)
    return seconds


def torchvision(loader, steps):
    """references/segmentation/train.py: train_one_epoch, with its meters and its schedule of every step."""
    model, optimizer = made(channels_last=False)
    scheduler = torch.optim.lr_scheduler.PolynomialLR(optimizer, steps, power=0.9)
    batches, seconds, meters = forever(loader), [], []
    for _ in range(steps):
        began = time.perf_counter()
        image, target = next(batches)
        output = {"out": model(image)}
        losses = {name: nn.functional.cross_entropy(x, target, ignore_index=IGNORED) for name, x in output.items()}
        loss = losses["out"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        meters.append((loss.item(), optimizer.param_groups[0]["lr"]))
        seconds.append(time.perf_counter() - began)
    return seconds


def lightning(loader, steps):
    import lightning as L

    class Module(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.model, _ = made(channels_last=False)

        def training_step(self, batch, _):
            images, masks = batch
            loss = nn.functional.cross_entropy(self.model(images), masks, ignore_index=IGNORED)
            self.log("loss", loss)
            return loss

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=1e-3, weight_decay=0.01)

    class Clock(L.Callback):
        """The time between two ends is that of a whole step, its batch and the trainer's own work with it."""

        ends = []

        def on_train_batch_end(self, *_):
            self.ends.append(time.perf_counter())

    clock = Clock()
    trainer = L.Trainer(
        max_steps=steps, accelerator="cpu", callbacks=[clock], logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Module(), loader)
    return [0.0, *(after - before for before, after in zip(clock.ends, clock.ends[1:], strict=False))]


LOOPS = {
    "plain": plain,
    "plain, channels last": lambda loader, steps: plain(loader, steps, channels_last=True),
    "torchvision": torchvision,
    "lightning": lightning,
}

if __name__ == "__main__":
    steps, warm, batch, crop, scale = json.loads(sys.argv[3])
    dataset = Images(Path(sys.argv[2]), crop, scale)
    loader = torch.utils.data.DataLoader(
        dataset, batch, shuffle=True, drop_last=True, num_workers=2, persistent_workers=True
    )
    seconds = LOOPS[sys.argv[1]](loader, steps)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": statistics.median(seconds[warm:]), "peak_mib": peak}))
