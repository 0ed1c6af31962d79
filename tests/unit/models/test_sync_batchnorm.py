from __future__ import annotations

import copy

import pytest
import torch
from support.norms import two_ranks
from support.norms_child import learn, network
from support.paths import SUPPORT
from support.training import recipe
from torch import nn

from penstock.config.checks import check_pieces
from penstock.errors import RecipeError
from penstock.models import build_segmenter, lone_norms, synchronise_norms
from penstock.models.sync_batchnorm import SyncNorm


def test_two_ranks_are_one_process(tmp_path):
    images = [40 + torch.randn((5, 3, 12, 10)) for _ in range(3)]
    torch.save(images, tmp_path / "images")
    two_ranks(SUPPORT / "norms_child.py", tmp_path / "images", tmp_path / "rank")
    first, second = (torch.load(tmp_path / f"rank-{rank}") for rank in (0, 1))
    alone = learn(network().train(), images)

    assert list(first) == list(alone)
    for name, expected in alone.items():
        torch.testing.assert_close(first[name], expected, rtol=1e-3, atol=1e-3)
        torch.testing.assert_close(first[name], second[name], rtol=0, atol=0)


def test_tensors_keep_their_names_and_evaluation_is_the_same():
    plain, images = network(), torch.randn(2, 3, 9, 9)
    learn(plain.train(), [torch.randn(4, 3, 9, 9)], 1)
    names, expected = list(plain.state_dict()), plain.eval()(images)
    changed = synchronise_norms(plain)

    assert list(changed.state_dict()) == names
    assert not any(type(module) is nn.BatchNorm2d for module in changed.modules())
    assert torch.equal(changed(images), expected)


@pytest.mark.parametrize(
    ("norm", "shape"), [(nn.BatchNorm1d, (5, 3)), (nn.BatchNorm1d, (5, 3, 4)), (nn.BatchNorm3d, (5, 3, 2, 4, 6))]
)
def test_norms_of_other_dimensions(norm, shape):
    """One rank by itself: as PyTorch has it, in training and in evaluation."""
    plain = nn.Sequential(norm(3)).train()
    changed = synchronise_norms(copy.deepcopy(plain))
    features = 3 + torch.randn(shape)
    with lone_norms(changed):
        torch.testing.assert_close(changed(features), plain(features))
    for name, buffer in plain.named_buffers():
        torch.testing.assert_close(changed.get_buffer(name), buffer)
    assert isinstance(changed[0], SyncNorm)
    torch.testing.assert_close(changed.eval()(features), plain.eval()(features))


def test_ranks_that_would_pass_through_norms_unequally_often_are_refused():
    chosen = recipe("data", sync_bn=True, batch=3, accumulate=2)
    with pytest.raises(RecipeError) as error:
        check_pieces(chosen, 2)

    assert str(error.value) == (
        "train.accumulate: expected as many micro-batches on each of 2 ranks, as train.sync_bn needs, found ranks with 1 and "
        "2 images, each to be cut into 2 micro-batches. Use train.batch=4."
    )
    check_pieces(recipe("data", sync_bn=True, batch=3), 2)
    check_pieces(recipe("data", sync_bn=False, batch=3, accumulate=2), 2)


def test_norms_of_all_depths_are_those_of_all_ranks():
    network = build_segmenter("unet:test_resnet", 3, "none")
    count = sum(isinstance(module, nn.BatchNorm2d) for module in network.modules())
    changed = synchronise_norms(network)

    assert count > 10
    assert sum(isinstance(module, SyncNorm) for module in changed.modules()) == count
