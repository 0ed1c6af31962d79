from __future__ import annotations

import pytest
import torch
from support.commands import call
from support.deeplab import images, learn_deeplab, network
from torch import nn

from penstock import config as recipes
from penstock.assembly import open_experiment
from penstock.errors import RecipeError
from penstock.models import build_segmenter
from penstock.models.atrous import DPC
from penstock.settings import Branch, DeepLabConfig


def test_names_are_systematic_and_stay():
    names = {
        name.rpartition(".")[0] for name in network(aux_loss_weight=0.4).state_dict() if not name.startswith("encoder.")
    }

    assert {name.partition(".")[0] for name in names} == {"aspp", "decoder", "logits", "auxiliary"}
    assert {
        "aspp.point.0", "aspp.atrous.0.0", "aspp.atrous.2.3", "aspp.pooling.0", "aspp.project.0.0", "decoder.skip.0",
        "decoder.refine.0.0", "decoder.refine.1.3", "logits", "auxiliary.0.0", "auxiliary.2",
    } <= names  # fmt: skip


def test_separable_convolutions_are_depth_then_point():
    branch = network().aspp.atrous[0]
    plain = network(separable=False).aspp.atrous[0]

    assert (branch[0].groups, branch[0].kernel_size, branch[3].kernel_size) == (512, (3, 3), (1, 1))
    assert (plain[0].groups, len(plain)) == (1, 3)


def test_pooling_is_the_mean_over_the_image():
    aspp = network(rates=(1,)).aspp.eval()
    features = torch.randn(2, 512, 4, 4)
    pooled = aspp.pooling(features.mean(dim=(2, 3), keepdim=True)).expand(-1, -1, 4, 4)
    branches = torch.cat([aspp.point(features), *(branch(features) for branch in aspp.atrous), pooled], dim=1)

    assert torch.allclose(aspp(features), aspp.project(branches), atol=1e-5)
    assert network(pooling=False).aspp.pooling is None
    assert network(pooling=False).aspp.project[0][0].in_channels == network().aspp.project[0][0].in_channels - 32


def test_squeeze_weighs_channels_by_the_mean_over_the_image():
    aspp = network(squeeze_excite=True).aspp.eval()
    features = torch.randn(2, 512, 4, 4)
    branches = torch.cat([aspp.point(features), *(branch(features) for branch in aspp.atrous)], dim=1)
    linear = nn.functional.conv2d(features.mean(dim=(2, 3), keepdim=True), aspp.squeeze[0].weight, aspp.squeeze[0].bias)

    assert aspp.pooling is None
    assert torch.allclose(aspp(features), aspp.project(branches) * linear.sigmoid(), atol=1e-6)


def test_the_pyramid_may_have_biases_instead_of_norms():
    model = network(norms=False)

    assert not any(isinstance(module, nn.BatchNorm2d) for module in model.aspp.modules())
    assert all(module.bias is not None for module in model.aspp.modules() if isinstance(module, nn.Conv2d))
    assert any(isinstance(module, nn.BatchNorm2d) for module in model.decoder.modules())


def test_a_dense_prediction_cell_is_its_definition():
    cell = (*DPC, Branch(2), Branch(5, grid=(2, 1)))
    model = network(cell=cell).eval()
    features, found = torch.randn(1, 512, 8, 6), []
    for branch, operation in zip(cell, model.aspp.branches, strict=True):
        given = features if branch.of < 0 else found[branch.of]
        if branch.grid == (2, 1):
            rows = torch.stack([given[:, :, i : i + 4].mean(dim=(2, 3)) for i in range(5)], dim=2)[..., None]
            wide = nn.functional.interpolate(operation(rows), size=(8, 6), mode="bilinear", align_corners=True)
            found.append(wide)
        else:
            found.append(operation(given))

    assert torch.allclose(model.aspp(features), model.aspp.project(torch.cat(found, dim=1)), atol=1e-5)
    assert [b[0].dilation for b in model.aspp.branches[:5]] == [(1, 6), (18, 15), (6, 3), (1, 1), (6, 21)]
    assert model.aspp.branches[5][0].kernel_size == (1, 1)
    assert network(cell=DPC, output_stride=8).aspp.branches[1][0].dilation == (36, 30)
    assert model(images()).shape == (2, 5, 64, 64)


def test_a_cell_is_written_in_a_recipe(packed, tmp_path, capsys):
    cell = "[{of=-1, rate=[1, 6]}, {of=0, rate=[18, 15]}, {of=0}]"
    words = [
        "--model",
        "deeplab:test_resnet",
        "--weights",
        "none",
        "--steps",
        "1",
        "--batch",
        "4",
        "--crop",
        "32",
        "32",
    ]
    words += ["--set", "model.deeplab.channels=8", "--set", f"model.deeplab.cell={cell}", "--runs", tmp_path]
    status, _, errors = call("train", packed.folder, *words, capsys=capsys)

    assert status == 0, errors
    (folder,) = tmp_path.iterdir()
    assert len(open_experiment(recipes.load(folder / "recipe.toml")).model().aspp.branches) == 3


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (
            {"cell": (Branch(), Branch(1))},
            "model.deeplab.cell, branch 1: expected a rate and a grid of at least 0, on the features (-1) or on an earlier "
            "branch, found of = 1, rate = [0, 0], grid = [0, 0]. Count branches from 0.",
        ),
        (
            {"cell": DPC, "rates": (1, 2), "squeeze_excite": True},
            "model.deeplab.cell: expected no settings of the ASPP pyramid, which the cell replaces, found rates, squeeze_excite. Leave them "
            "out; a cell's branches have rates of their own.",
        ),
    ],
)
def test_cells_that_make_no_sense_are_refused(parts, message):
    with pytest.raises(RecipeError) as error:
        network(**parts)

    assert str(error.value) == message


def test_a_decoder_may_add():
    model = network(decoder_sum=True).eval()
    decoder = model.decoder
    coarse, fine = torch.randn(1, 32, 4, 4), torch.randn(1, 64, 16, 16)
    wide = nn.functional.interpolate(coarse, size=(16, 16), mode="bilinear", align_corners=False)

    assert torch.allclose(decoder(coarse, fine), decoder.refine(wide + decoder.skip(fine)))
    assert network().decoder.skip[0].out_channels == 48
    assert network(decoder=False).decoder is None


def test_a_decoder_may_have_several_stages():
    """From coarse to fine, each with features of its own stride."""
    model = network(decoder_strides=(8, 4)).eval()
    features = model.encoder(images())
    found = model.aspp(features[-1])
    for stage, fine in ((model.coarser[0], features[1]), (model.decoder, features[0])):
        found = stage(found, fine)
    (second,) = model.coarser

    assert [each.shape[2] for each in features] == [16, 8, 4, 4]
    assert (second.skip[0].in_channels, model.decoder.skip[0].in_channels) == (128, 64)
    whole = nn.functional.interpolate(model.logits(found), size=(64, 64), mode="bilinear", align_corners=False)
    assert torch.allclose(model(images()), whole, atol=1e-5)
    assert len(network().coarser) == 0
    assert DeepLabConfig(decoder_strides=(16, 8), output_stride=32).stride == 8


def test_a_decoders_output_may_be_the_logits():
    model = network(decoder_logits=True).eval()
    prediction = model(images())

    assert isinstance(model.logits, nn.Identity)
    assert [type(layer) for layer in model.decoder.refine] == [nn.Conv2d]
    assert model.decoder.refine(torch.zeros(1, model.decoder.refine[0].in_channels, 9, 7)).shape == (1, 5, 9, 7)
    assert (prediction.shape, bool(prediction.min() < 0)) == ((2, 5, 64, 64), True)


def test_logits_may_come_from_a_larger_kernel():
    model = network(logits_kernel=3)

    assert (model.logits.kernel_size, model.logits.padding) == ((3, 3), (1, 1))
    assert network().logits.kernel_size == (1, 1)


def test_the_pyramid_may_go_on_without_a_projection():
    model = network(projection=False).eval()
    features = torch.randn(2, 512, 4, 4)
    pooled = model.aspp.pooling(features.mean(dim=(2, 3), keepdim=True)).expand(-1, -1, 4, 4)
    branches = [model.aspp.point(features), *(branch(features) for branch in model.aspp.atrous), pooled]

    assert torch.allclose(model.aspp(features), torch.cat(branches, dim=1), atol=1e-5)
    assert model.decoder.refine[0][0].in_channels == 5 * 32 + 48
    assert model(images()).shape == (2, 5, 64, 64)
    assert network(projection=False, decoder=False).logits.in_channels == 5 * 32


def test_means_may_be_taken_over_windows():
    aspp = network(pooling_size=(32, 48), pooling_stride=(2, 1)).aspp.eval()
    features = torch.randn(1, 512, 6, 8)
    means = nn.functional.avg_pool2d(features, (2, 3), (2, 1))  # at an output stride of 16
    pooled = nn.functional.interpolate(aspp.pooling(means), (6, 8), mode="bilinear", align_corners=False)
    branches = [aspp.point(features), *(branch(features) for branch in aspp.atrous), pooled]

    assert torch.allclose(aspp(features), aspp.project(torch.cat(branches, dim=1)), atol=1e-5)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"decoder_strides": (4, 8)}, "decoder_strides: expected one or more of 8, 4, from coarse to fine (smaller than the output stride of 16), found 4, 8. Change the setting."),
        ({"decoder_strides": (16,)}, "decoder_strides: expected one or more of 8, 4, from coarse to fine (smaller than the output stride of 16), found 16. Change the setting."),
        ({"decoder_strides": ()}, "decoder_strides: expected one or more of 8, 4, from coarse to fine (smaller than the output stride of 16), found none. Change the setting."),
        ({"decoder": False, "decoder_logits": True}, "decoder: expected true, as there are settings of it, found false. Change one of the two settings."),
        ({"decoder_logits": True, "logits_kernel": 3}, "logits_kernel: expected 1, as the decoder gives the logits, found 3. Change one of the two settings."),
        ({"logits_kernel": 2}, "logits_kernel: expected an odd number, found 2. Change the setting."),
        ({"pooling_size": (32,)}, "pooling_size: expected a height and a width, and steps of at least 1, found 32, 1, 1. Change the setting."),
        ({"pooling_size": (32, 32), "squeeze_excite": True}, "pooling_size: expected none, as there is no image pooling, found 32, 32. Change one of the two settings."),
        ({"squeeze_excite": True, "projection": False}, "projection: expected true, as its channels are weighed, found false. Change one of the two settings."),
    ],
)  # fmt: skip
def test_parts_that_do_not_go_together_are_refused(parts, message):
    with pytest.raises(RecipeError) as caught:
        network(**parts)
    assert str(caught.value) == f"model.deeplab.{message}"


@pytest.mark.parametrize("merge", ["max", "average"])
def test_a_pyramid_of_images_shares_its_weights(merge):
    model = network(image_pyramid=(0.5, 1.0), merge=merge).eval()
    single = network().eval()
    single.load_state_dict(model.state_dict())
    x = images()
    small = nn.functional.interpolate(x, size=(32, 32), mode="bilinear", align_corners=False)
    looks = [single._look(each)[0] for each in (small, x)]
    sized = torch.stack(
        [nn.functional.interpolate(each, size=(64, 64), mode="bilinear", align_corners=False) for each in looks]
    )
    expected = sized.amax(dim=0) if merge == "max" else sized.mean(dim=0)

    assert torch.allclose(model(x), expected, atol=1e-5)


def test_training_gives_every_scale_the_merge_and_the_auxiliary_head():
    model = network(image_pyramid=(0.5, 1.0), aux_loss_weight=0.4).train()

    assert [(weight, tuple(logits.shape)) for weight, logits in model(images())] == [
        (1.0, (2, 5, 64, 64)), (1.0, (2, 5, 64, 64)), (1.0, (2, 5, 64, 64)), (0.4, (2, 5, 64, 64)), (0.4, (2, 5, 64, 64)),
    ]  # fmt: skip
    assert [weight for weight, _ in network().train()(images())] == [1.0]


@pytest.mark.parametrize("upsample", [True, False])
def test_the_loss_is_added_for_every_scale_and_the_merge(packed, upsample):
    parts = open_experiment(learn_deeplab(packed, image_pyramid=(0.5, 1.0), aux_loss_weight=0.4, upsample=upsample))
    task, model = parts.task, parts.model().train()
    (batch,) = [next(parts.training_feed().batches())]
    outputs = model(task.inputs(batch.tensors))
    mask = batch.tensors["mask"] if upsample else batch.tensors["mask"][:, 2::4, 2::4]
    expected = sum(
        weight * nn.functional.cross_entropy(logits, mask.long(), ignore_index=255, reduction="sum")
        for weight, logits in outputs
    )

    assert outputs[0][1].shape[2:] == ((32, 32) if upsample else (8, 8))
    assert torch.allclose(task.loss(outputs, batch.tensors), expected, rtol=1e-5)
    assert task.count(batch.tensors).tolist() == [int((mask != 255).sum())]


def test_the_published_cell_is_the_paper_s():
    """Figure 5 of Chen et al. 2018, as core/dense_prediction_cell_branch5_top1_cityscapes.json has it."""
    assert [(branch.of, branch.rate, branch.grid) for branch in DPC] == [
        (-1, (1, 6), (0, 0)), (0, (18, 15), (0, 0)), (1, (6, 3), (0, 0)), (0, (1, 1), (0, 0)), (0, (6, 21), (0, 0)),
    ]  # fmt: skip


@pytest.mark.parametrize("separable", [True, False])
def test_both_convolutions_of_a_decoder_are_separable_or_neither(separable):
    network = build_segmenter("deeplab:test_resnet", 3, "none", DeepLabConfig(channels=8, separable=separable))
    found = [
        [m.groups == m.in_channels for m in refine.modules() if isinstance(m, nn.Conv2d) and m.kernel_size == (3, 3)]
        for refine in network.decoder.refine
    ]

    assert found == [[separable], [separable]]


def test_a_cell_without_norms_has_biases():
    network = build_segmenter("deeplab:test_resnet", 3, "none", DeepLabConfig(channels=8, cell=DPC, norms=False))
    layers = list(network.aspp.modules())

    assert not any(isinstance(layer, nn.BatchNorm2d) for layer in layers)
    assert all(layer.bias is not None for layer in layers if isinstance(layer, nn.Conv2d))
