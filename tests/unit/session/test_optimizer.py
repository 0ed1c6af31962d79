from __future__ import annotations

import pytest
import torch
from support.training import Stop, recipe, state
from torch import nn
from torch.optim import lr_scheduler as schedules

from penstock.assembly import open_experiment
from penstock.config import apply
from penstock.errors import RecipeError
from penstock.models import build_classifier, build_detector, build_segmenter
from penstock.session import Hook
from penstock.session.optimizer import make_optimizer
from penstock.settings.optimizer import SGD, AdamW, Muon, RMSprop
from penstock.settings.schedules import Constant, Cosine, Exponential, MultiStep, Poly, Step
from penstock.training import resume, train
from penstock.training.compatibility import check_optimizer


def test_adamw_is_that_of_pytorch():
    ours, theirs = (nn.Sequential(nn.Conv2d(3, 8, 3), nn.Conv2d(8, 4, 3)) for _ in range(2))
    theirs.load_state_dict(ours.state_dict())
    ours = ours.to(memory_format=torch.channels_last)
    optimizers = (
        make_optimizer(AdamW(lr=0.01, weight_decay=0.1), ours),
        torch.optim.AdamW(
            [
                {"params": [p for p in theirs.parameters() if p.ndim > 1], "weight_decay": 0.1},
                {"params": [p for p in theirs.parameters() if p.ndim == 1], "weight_decay": 0.0},
            ],
            lr=0.01,
        ),
    )
    for step in range(5):
        images = torch.randn((2, 3, 9, 9), generator=torch.Generator().manual_seed(step))
        for model, optimizer in zip((ours, theirs), optimizers, strict=True):
            optimizer.zero_grad()
            model(images).square().mean().backward()
            optimizer.step()

    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5)


class TestOptimizer:
    def test_schedules(self):
        poly = SGD(lr=1.0, warmup_steps=4)
        assert [round(poly.rate(s, 14), 4) for s in (0, 3, 4, 9, 14)] == [0.2, 0.8, 1.0, 0.5359, 0.0]
        cosine = AdamW(lr=2.0)
        assert [cosine.rate(s, 10) for s in (0, 5, 10)] == pytest.approx([2.0, 1.0, 0.0])
        assert SGD(schedule=Constant(), lr=0.3).rate(7, 10) == 0.3

    @pytest.mark.parametrize(
        ("spec", "theirs"),
        [
            (SGD(schedule=Step(gamma=0.5, step_size=3)), lambda o: schedules.StepLR(o, 3, 0.5)),
            (
                SGD(schedule=MultiStep(milestones=(2, 7))),
                lambda o: schedules.MultiStepLR(o, [2, 7], 0.1),
            ),
            (
                SGD(schedule=Exponential(gamma=0.9, step_size=1)),
                lambda o: schedules.ExponentialLR(o, 0.9),
            ),
            (SGD(schedule=Poly()), lambda o: schedules.PolynomialLR(o, 12, 0.9)),
            (
                SGD(schedule=Cosine(min_lr_ratio=0.2)),
                lambda o: schedules.CosineAnnealingLR(o, 12, eta_min=0.2 * 0.01),
            ),
        ],
        ids=lambda value: value.schedule.name if isinstance(value, SGD) else "",
    )
    def test_schedules_are_those_of_pytorch(self, spec, theirs):
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=spec.lr)
        other, rates = theirs(optimizer), []
        for _ in range(13):
            rates.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            other.step()

        assert [spec.rate(step, 12) for step in range(13)] == pytest.approx(rates, abs=1e-12)

    def test_slow_starts(self):
        slow = SGD(lr=1.0, schedule=Constant(), warmup_steps=3, warmup_start_ratio=0.25)
        assert [slow.rate(step, 10) for step in range(5)] == [0.25, 0.25, 0.25, 1.0, 1.0]
        low = SGD(lr=2.0, schedule=Step(gamma=0.1, step_size=1, min_lr_ratio=0.05))
        assert [low.rate(step, 10) for step in range(4)] == pytest.approx([2.0, 0.2, 0.1, 0.1])

    def test_heads_and_biases_may_learn_faster(self, packed):
        model = open_experiment(recipe(packed.folder)).model()
        optimizer = make_optimizer(SGD(bias_lr_mult=2.0, head_lr_mult=10.0), model)
        shares = {id(p): group["lr_mult"] for group in optimizer.param_groups for p in group["params"]}
        named = {name: shares[id(p)] for name, p in model.named_parameters()}

        norms = {f"{name}.bias" for name, each in model.named_modules() if isinstance(each, nn.BatchNorm2d)}

        assert {share for name, share in named.items() if name.startswith("encoder.")} == {1.0}, "its biases are norms'"
        assert named["segmentation_head.0.weight"] == 10.0
        assert named["segmentation_head.0.bias"] == 20.0
        assert norms
        assert {named[name] for name in norms} == {1.0, 10.0}

    def test_the_logits_alone_may_learn_faster(self):
        model = build_segmenter("deeplab:test_resnet", 3, "none")
        optimizer = make_optimizer(SGD(head_lr_mult=10, bias_lr_mult=2, head="logits"), model)
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        shares = {names[id(p)]: group["lr_mult"] for group in optimizer.param_groups for p in group["params"]}

        assert (shares.pop("logits.weight"), shares.pop("logits.bias")) == (10, 20)
        assert set(shares.values()) == {1}, "all other biases are norms'"
        assert any(name.startswith("aspp.") for name in shares)
        with pytest.raises(
            RecipeError, match=r"optimizer.head = logits has no effect, as ssd:test_resnet has no layer of that name"
        ):
            check_optimizer(
                apply(recipe("x"), ["model.name=ssd:test_resnet", "optimizer.head=logits"]),
                build_detector("ssd:test_resnet", 2, "none"),
            )

    def test_gradients_are_cut_to_a_norm(self, packed, tmp_path):
        norms = []

        class Looks(Hook):
            def before_step(self, session):
                session.optimizer.register_step_pre_hook(
                    lambda *_: norms.append(
                        torch.nn.utils.get_total_norm(
                            [p.grad for p in session.model.parameters() if p.grad is not None]
                        )
                    )
                )

        train(apply(recipe(packed.folder, steps=1), ["train.grad_clip=0.001"]), tmp_path, hooks=[Looks()])
        assert norms[0].item() == pytest.approx(0.001, rel=1e-3)

    @pytest.mark.parametrize("name", ["adamw", "rmsprop"])
    def test_a_resumed_run_is_the_same_with_every_optimizer(self, packed, tmp_path, name):
        settings = [
            f"optimizer.name={name}",
            "optimizer.lr=0.001",
            "train.grad_clip=0.5",
            "optimizer.head_lr_mult=3",
        ]
        chosen = apply(recipe(packed.folder), settings)

        whole, _ = train(chosen, tmp_path / "whole")
        stopped, _ = train(chosen, tmp_path / "stopped", hooks=[Stop(5)])
        resume(stopped.path)

        for kind in ("model", "optimizer", "ema"):
            key = f"{kind}.safetensors"
            assert state(stopped.path)[key] == state(whole.path)[key]

    @pytest.mark.parametrize("spec", [SGD, AdamW, RMSprop])
    def test_biases_and_norms_do_not_decay(self, spec):
        model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Linear(4, 2))
        optimizer = make_optimizer(spec(weight_decay=0.1), model)
        decayed = {id(p) for g in optimizer.param_groups if g["weight_decay"] for p in g["params"]}

        assert decayed == {id(model[0].weight), id(model[2].weight)}


def test_momentum_may_begin_late(packed, tmp_path):
    chosen = apply(recipe(packed.folder, steps=2), ["optimizer.name=rmsprop", "optimizer.momentum=0.0"])
    folder, _ = train(chosen, tmp_path)
    _, outcome = resume(folder.path, ["optimizer.momentum=0.9", "train.steps=3"])

    assert (outcome.status, outcome.step) == ("finished", 3)


def test_positions_of_transformers_do_not_decay():
    model = build_classifier("test_vit", 3, "none")
    optimizer = make_optimizer(AdamW(weight_decay=0.1), model)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    spared = {names[id(p)] for g in optimizer.param_groups if not g["weight_decay"] for p in g["params"]}

    assert {"encoder.pos_embed", "encoder.cls_token"} <= spared


class Positions(nn.Module):
    """With a matrix that says it must not decay, and one that may."""

    def __init__(self):
        super().__init__()
        self.places, self.filters = (nn.Parameter(torch.ones(2, 2)) for _ in range(2))

    def no_weight_decay(self):
        return {"places"}


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.head = Positions(), nn.Linear(2, 2)


@pytest.mark.parametrize(("model", "before"), [(Positions(), ""), (Nested(), "encoder.")])
def test_what_a_network_says_must_not_decay_does_not(model, before):
    groups = make_optimizer(SGD(weight_decay=0.1), model).param_groups
    decays = {id(parameter): group["weight_decay"] for group in groups for parameter in group["params"]}
    found = {name: decays[id(parameter)] for name, parameter in model.named_parameters()}

    assert found[f"{before}places"] == 0.0
    assert found[f"{before}filters"] == 0.1


def test_matrices_of_a_backbone_are_filters_too():
    model = Nested()
    groups = make_optimizer(Muon(), model).param_groups
    orthogonal = {id(parameter) for group in groups if group["orthogonal"] for parameter in group["params"]}
    assert orthogonal == {id(model.encoder.places), id(model.encoder.filters)}


class Rates(Hook):
    """The learning rates that the optimizer was given."""

    def __init__(self):
        self.rates = []

    def after_step(self, session):
        self.rates.append([group["lr"] / group["lr_mult"] for group in session.optimizer.param_groups])


@pytest.mark.parametrize("name", ["sgd", "adamw", "rmsprop", "muon"])
def test_every_optimizer_follows_the_schedule(packed, tmp_path, name):
    chosen = apply(recipe(packed.folder, steps=5), [f"optimizer.name={name}", "optimizer.schedule=cosine"])
    rates = Rates()
    train(chosen, tmp_path, hooks=[rates])

    assert len({found[0] for found in rates.rates}) == 5
    for step, found in enumerate(rates.rates):
        assert found == pytest.approx([chosen.optimizer.rate(step, 5)] * len(found))
