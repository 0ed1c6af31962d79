from __future__ import annotations

import numpy as np
import pytest
import torch
from timm.layers import DropPath
from torch import nn
from torch.utils.checkpoint import checkpoint
from torchvision.ops import StochasticDepth

from penstock.models import key_dropout
from penstock.seeds import key

ALL = 2**32 - 1


def keyed(*layers, step=0):
    """A network of some layers that drop, in training, and its keys."""
    model = nn.Sequential(*layers).train()
    keys = key_dropout(model)
    keys.begin(key(3, "dropout", step))
    return model, keys


def mixed(words):
    """The hash as its author writes it, in NumPy's integers of 32 bits that wrap around."""
    words = np.asarray(words, np.uint32)
    with np.errstate(over="ignore"):
        words = (words ^ (words >> np.uint32(16))) * np.uint32(0x21F0AAAD)
        words = (words ^ (words >> np.uint32(15))) * np.uint32(0x735A2D97)
    return words ^ (words >> np.uint32(15))


def expected(step, places, number, size):
    """Uniform numbers of (samples, values)."""
    one, two, three, four = np.frombuffer(key(3, "dropout", step), "<u4")
    first = mixed(mixed(np.uint32(places) ^ one) ^ two)
    second = mixed(mixed(np.uint32(places) ^ three) ^ four)
    first = mixed(first ^ np.uint32(number * 0x21F0AAAD & ALL))
    found = mixed(mixed(np.arange(size, dtype=np.uint32)[None] ^ first[:, None]) ^ second[:, None])
    return (found >> np.uint32(8)) / 2**24


def test_what_is_dropped_follows_from_step_sample_and_layer():
    model, keys = keyed(nn.Dropout(0.3), nn.Identity(), nn.Dropout(0.6), step=5)
    keys.show(torch.tensor([7, 2**32 - 1, 0]))
    features = torch.rand(3, 4, 5, 6) + 1
    kept = torch.from_numpy(expected(5, [7, ALL, 0], 0, 120).reshape(3, 4, 5, 6) >= 0.3)
    both = kept & torch.from_numpy(expected(5, [7, ALL, 0], 1, 120).reshape(3, 4, 5, 6) >= 0.6)

    torch.testing.assert_close(model[0](features), features * kept / 0.7)
    torch.testing.assert_close(model(features), features * both / 0.7 / 0.4)


@pytest.mark.parametrize("layer", [nn.Dropout1d, nn.Dropout2d, nn.Dropout3d])
def test_channels_are_dropped_whole(layer):
    model, keys = keyed(layer(0.5))
    shape = (64, 32, *[3] * int(layer.__name__[7]))
    keys.show(torch.arange(64))
    found = model(torch.ones(shape)).flatten(2)
    kept = torch.from_numpy(expected(0, range(64), 0, 32) >= 0.5)

    assert torch.equal(found, (2.0 * kept)[..., None].expand_as(found))


@pytest.mark.parametrize(
    ("layer", "value"),
    [(DropPath(0.25), 4 / 3), (DropPath(0.25, scale_by_keep=False), 1.0), (StochasticDepth(0.25, "row"), 4 / 3)],
)
def test_branches_are_dropped_by_sample(layer, value):
    model, keys = keyed(layer)
    keys.show(torch.arange(40, 240))
    found = model(torch.ones(200, 3, 2))
    kept = torch.from_numpy(expected(0, range(40, 240), 0, 1) >= 0.25)

    torch.testing.assert_close(found, value * kept[..., None].expand_as(found))


def test_samples_keep_theirs_in_any_company():
    """Alone, in another order, and in windows of which each sample has as many."""
    model, keys = keyed(nn.Dropout(0.5), DropPath(0.5), nn.Dropout2d(0.5))
    features = torch.rand(6, 8, 3, 3) + 1
    keys.show(torch.arange(6))
    whole = model(features)
    order = torch.tensor([4, 1, 5])
    keys.show(order)
    some = model(features[order])
    keys.show(torch.arange(6))
    windows = model[0](features.view(6 * 4, 2, 3, 3)).view_as(features)

    assert torch.equal(some, whole[order])
    assert torch.equal(windows, model[0](features))


def test_rates_are_right_and_nothing_depends_on_anything_else():
    """Of 2,000 x 500 values: the rate of all, of each sample and of each place, and their correlations."""
    model, keys = keyed(nn.Dropout(0.4), nn.Dropout(0.4))
    kept = []
    for step in (0, 1):
        keys.begin(key(3, "dropout", step))
        keys.show(torch.arange(2000))
        kept += [(layer(torch.ones(2000, 500)) > 0).double() for layer in model]
    for one in kept:
        assert one.mean().item() == pytest.approx(0.6, abs=0.003)
        assert one.mean(1).sub(0.6).abs().max() < 5 * (0.24 / 500) ** 0.5
        assert one.mean(0).sub(0.6).abs().max() < 5 * (0.24 / 2000) ** 0.5
    pairs = [(kept[0], other) for other in kept[1:]]
    pairs += [(kept[0][1:], kept[0][:-1]), (kept[0][:, 1:], kept[0][:, :-1]), (kept[0][::2], kept[0][1::2])]
    for one, other in pairs:
        assert abs(((one - 0.6) * (other - 0.6)).mean() / 0.24) < 0.006


def test_gradients_are_those_of_what_is_kept():
    model, keys = keyed(nn.Dropout(0.5), DropPath(0.5))
    keys.show(torch.arange(8))
    features = torch.ones(8, 16, requires_grad=True)
    found = model(features)
    found.sum().backward()

    assert torch.equal(features.grad, found.detach())
    assert 0 < int((found == 0).sum()) < found.numel()


def test_evaluation_and_rates_of_zero_drop_nothing():
    model, keys = keyed(nn.Dropout(0.0), DropPath(0.0), nn.Dropout2d(0.5))
    keys.show(torch.arange(2))
    features = torch.rand(2, 3, 4, 4)

    assert torch.equal(model.eval()(features), features)
    assert torch.equal(model.train()[:2](features), features)
    all_of_it, keys = keyed(nn.Dropout(1.0), DropPath(1.0))
    keys.show(torch.arange(2))
    assert [int(layer(features).count_nonzero()) for layer in all_of_it] == [0, 0]


@pytest.mark.parametrize("layer", [nn.Dropout(0.5), nn.Dropout2d(0.5), DropPath(0.5)])
def test_rows_that_belong_to_no_sample_are_drawn_by_pytorch(layer):
    model, keys = keyed(layer)
    plain = type(layer)(0.5).train()
    features = torch.rand(7, 4, 3, 3)
    for places in (None, torch.arange(2)):
        if places is not None:
            keys.show(places)
        torch.manual_seed(1)
        found = model(features)
        torch.manual_seed(1)
        assert torch.equal(found, plain(features))


def test_networks_keep_their_tensors_and_other_layers():
    class Own(nn.Dropout):
        """Somebody's own."""

    shared = nn.Dropout(0.5)
    model = nn.Sequential(nn.Linear(2, 2), shared, Own(0.5), nn.Sequential(nn.BatchNorm1d(2), shared))
    model.append(StochasticDepth(0.5, "batch"))
    names = list(model.state_dict())
    assert key_dropout(model)
    assert list(model.state_dict()) == names
    assert model[1] is model[3][1]
    assert [type(each).__name__ for each in model] == ["Linear", "KeyedDropout", "Own", "Sequential", "StochasticDepth"]
    assert isinstance(model[1], nn.Dropout)
    assert key_dropout(nn.Sequential(nn.Linear(2, 2))) is None


def test_it_is_compiled_in_one_piece_and_repeated_by_activation_checkpoints():
    model, keys = keyed(nn.Linear(12, 12), nn.Dropout(0.5), nn.ReLU(), DropPath(0.5))
    features = torch.rand(6, 12)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    for step in (0, 1, 2):
        keys.begin(key(3, "dropout", step))
        keys.show(torch.arange(6 * step, 6 * step + 6))
        assert torch.equal(compiled(features), model(features))
    model.zero_grad()
    model(features).sum().backward()
    plain = model[0].weight.grad.clone()
    model.zero_grad()
    checkpoint(model, features, use_reentrant=False).sum().backward()
    assert torch.equal(model[0].weight.grad, plain)
