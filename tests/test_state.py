"""Weights and optimizers as files: what is said where one is not what it should be, and what it is called."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from penstock.errors import CheckpointError
from penstock.session import state
from penstock.session.muon import Muon, orthogonal


def test_tensors_that_are_gone_or_damaged_are_named(tmp_path):
    path = tmp_path / "model.safetensors"
    for content in (None, b"\xff" * 40):
        if content:
            path.write_bytes(content)
        with pytest.raises(CheckpointError) as caught:
            state.read_tensors(path)
        assert str(caught.value).startswith(f"{path}: expected a safetensors file, found ")
        assert str(caught.value).endswith(". Use another checkpoint of the run.")
        assert "\n" not in str(caught.value)


def test_weights_of_another_model_are_named():
    with pytest.raises(CheckpointError) as caught:
        state.load_model(nn.Linear(2, 3), {"weight": torch.zeros(4, 2), "bias": torch.zeros(3)}, "runs/1/step-3")
    assert str(caught.value) == (
        "runs/1/step-3: expected the weights of the model in recipe.toml, found Error(s) in loading state_dict for "
        "Linear: size mismatch for weight: copying a param with shape torch.Size([4, 2]) from checkpoint, the shape in "
        "current model is torch.Size([3, 2]).. Restore the run's recipe.toml, or start a new run with --init."
    )


def test_what_is_written_is_read(tmp_path):
    tensors = {"a": torch.arange(6.0).view(2, 3).T, "b": torch.tensor(7)}
    state.write_tensors(tmp_path / "x.safetensors", tensors)
    found = state.read_tensors(tmp_path / "x.safetensors")

    assert found.keys() == tensors.keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in tensors.items())


class TestMuon:
    def test_a_group_that_says_nothing_takes_nesterovs_step_without_decay(self):
        ours, theirs = (nn.Parameter(torch.linspace(-1, 1, 12).view(3, 4)) for _ in range(2))
        muon = Muon([{"params": [ours]}], lr=0.1, momentum=0.8)
        sgd = torch.optim.SGD([theirs], lr=0.1, momentum=0.8, nesterov=True)
        for number in range(4):
            for parameter, optimizer in ((ours, muon), (theirs, sgd)):
                parameter.grad = torch.cos(parameter.detach() + number)
                optimizer.step()

        torch.testing.assert_close(ours, theirs)

    def test_its_state_has_sgds_name(self):
        model = nn.Linear(2, 3)
        muon = Muon([{"params": list(model.parameters())}], lr=0.1, momentum=0.8)
        model(torch.ones(1, 2)).sum().backward()
        muon.step()

        assert sorted(state.optimizer_tensors(muon, model)) == ["bias/momentum_buffer", "weight/momentum_buffer"]

    @pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float64])
    @pytest.mark.parametrize("shape", [(8, 3), (3, 8), (5, 5)])
    def test_an_orthogonal_update_is_near_its_factors(self, kind, shape):
        matrix = torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(kind)
        found = orthogonal(matrix)
        u, _, vh = torch.linalg.svd(matrix.double(), full_matrices=False)
        values = torch.linalg.svdvals(found.double()) / max(1.0, shape[0] / shape[1]) ** 0.5

        assert found.dtype == kind
        assert ((values > 0.6) & (values < 1.3)).all()
        nearness = (found.double() * (u @ vh)).sum() / found.double().norm() / (u @ vh).norm()
        assert nearness > 0.95
