from __future__ import annotations

import pytest
import torch
from support.errors import refused
from support.line import SPEC, by_hand, session
from support.training import recipe

from penstock.config import apply
from penstock.errors import RecipeError
from penstock.hooks.values import LogValues
from penstock.training import train


def lines_of(folder, hook, steps=4):
    made, lines = session(folder, steps, hooks=[hook]), []
    made.note = lines.append
    made.train()
    return lines, made


def test_values_are_printed_as_often_as_asked(tmp_path):
    lines, made = lines_of(tmp_path, LogValues(["loss", "lr", "epoch", "param_norm"], every=3, at_end=True))
    weights, _, losses = by_hand(4)
    norm = float(torch.cat([weight.flatten() for weight in weights]).norm())

    assert len(lines) == 2
    assert lines[0].startswith(f"step      3  loss = {losses[2]:.4g}, lr = {SPEC.lr:.4g}, epoch = 1, param_norm = ")
    assert lines[1] == f"step      4  loss = {losses[3]:.4g}, lr = 0.02, epoch = 1.333, param_norm = {norm:.4g}"
    assert made.step == 4


def test_only_the_last_is_left_out_if_not_asked_for(tmp_path):
    assert len(lines_of(tmp_path, LogValues(every=3))[0]) == 1


def test_times_and_norms_are_those_of_the_step(tmp_path):
    names = ["grad_norm", "step_seconds", "wait_seconds", "images_per_second"]
    seen = []
    lines, made = lines_of(tmp_path, LogValues(names, every=4, formatter=lambda values: seen.append(values) or "mine"))
    (values,) = seen

    assert lines == ["step      4  mine"]
    assert (values["grad_norm"], values["step_seconds"], values["wait_seconds"]) == (
        made.grad_norm, made.timing["step"], made.timing["wait"],
    )  # fmt: skip
    assert values["images_per_second"] == pytest.approx(4 / made.timing["step"])


def test_gradients_have_the_norm_that_they_had_before_they_were_cut(tmp_path):
    from penstock.session import Hook

    class Sees(Hook):
        def __init__(self):
            self.norms = []

        def after_backward(self, session):
            self.norms.append(float(torch.cat([p.grad.flatten() for p in session.model.parameters()]).norm()))

        def after_step(self, session):
            assert session.grad_norm == pytest.approx(self.norms[-1])

    hook = Sees()
    session(tmp_path, 3, hooks=[hook], grad_clip=0.01).train()
    assert min(hook.norms) > 0.01


def test_formats_have_fields(tmp_path):
    hook = LogValues(["loss", "loss_parts"], every=4, format="loss {loss:.2f} of {loss_parts}")
    loss = by_hand(4)[2][3]

    assert lines_of(tmp_path, hook)[0] == [f"step      4  loss {loss:.2f} of {loss:.4g}"]


def test_tensors_are_summed_up(tmp_path):
    lines, made = lines_of(tmp_path, LogValues(["outputs"], every=4))
    few = lines[0].removeprefix("step      4  outputs = ").split()
    assert len(few) == 4
    hook = LogValues(["x"])
    hook.wants = ()
    made.values = {"x": [{"a": torch.arange(6.0)}, [torch.arange(6.0, 9), torch.zeros(0)]]}
    hook.after_step(made)

    assert lines[1] == "step      4  x = mean 4, std 2.739, from 0 to 8"
    made.values = {}
    hook.after_step(made)
    assert lines[2] == "step      4  x = nothing"


def test_a_wrong_format_is_a_sentence(tmp_path):
    with pytest.raises(RecipeError) as caught:
        lines_of(tmp_path, LogValues(["loss"], every=2, format="{los}"))
    assert str(caught.value) == (
        "log_values: expected a format with fields among loss, found {los} (KeyError: 'los'). Write for example format = "
        '"loss {loss:.3f}".'
    )


def test_some_value_must_be_named():
    refused(LogValues, [], message='log_values: expected at least one value, found none. Write values = ["loss"].')


def test_a_recipe_may_name_it_and_modules_with_it(packed, tmp_path):
    hook = "{name='log_values', values=['loss', 'segmentation_head'], every=2, format='{segmentation_head}'}"
    folder, _ = train(apply(recipe(packed.folder, steps=3), [f"hooks=[{hook}]"]), tmp_path)
    (line,) = [line for line in (folder.path / "log.txt").read_text().splitlines() if "std" in line]

    assert line.startswith("step      2  mean ")


def test_a_width_without_an_end_is_refused():
    with pytest.raises(RecipeError, match="expected widths of at most three digits"):
        LogValues(format="{loss:1500000000}")
