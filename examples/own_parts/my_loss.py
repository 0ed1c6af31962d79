"""A loss of one's own: `penstock train DATA --loss examples/own_parts/my_loss.py:margin`."""

import torch.nn.functional as F


def margin(logits, target, ignore):
    """Multi-class hinge loss (Crammer and Singer 2001): one number for each image, float (n,).

    Args:
        logits: float (n, classes, h, w).
        target: class ids (n, h, w).
        ignore: the id that does not count.
    """
    counts = target != ignore
    label = target.long().clamp(max=logits.shape[1] - 1).unsqueeze(1)
    own = logits.gather(1, label)
    others = logits.scatter(1, label, float("-inf")).amax(dim=1, keepdim=True)
    loss = F.relu(1 + others - own).squeeze(1) * counts
    return loss.flatten(1).sum(dim=1) / counts.flatten(1).sum(dim=1).clamp(min=1)
