from __future__ import annotations

import pytest
import torch
from torch import nn

from penstock.errors import CheckpointError
from penstock.session import state


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
        "current model is torch.Size([3, 2]). Restore the run's recipe.toml, or start a new run with --init RUN."
    )


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW, torch.optim.RMSprop])
def test_a_state_of_another_shape_is_named_before_the_first_step(kind):
    model = nn.Linear(3, 2)
    optimizer = kind(model.parameters(), lr=0.1, **({} if kind is torch.optim.AdamW else {"momentum": 0.9}))
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    tensors = state.optimizer_tensors(optimizer, model)
    state.load_optimizer(optimizer, model, tensors, "runs/1/checkpoints/last")

    shaped = [name for name, tensor in tensors.items() if name.startswith("weight/") and tensor.shape == (2, 3)]
    assert shaped
    for name in shaped:
        with pytest.raises(CheckpointError) as caught:
            state.load_optimizer(optimizer, model, tensors | {name: torch.ones(2, 4)}, "runs/1/checkpoints/last")
        assert str(caught.value) == (
            f"runs/1/checkpoints/last/optimizer.safetensors: expected {name} of torch.float32 and shape (2, 3), as the "
            "parameter is, found torch.float32 and (2, 4). The checkpoint is damaged: use another one of the run."
        )
        with pytest.raises(CheckpointError, match=r"found torch\.int64 and \(2, 3\)"):
            state.load_optimizer(optimizer, model, tensors | {name: torch.ones(2, 3, dtype=torch.int64)}, "last")


def test_what_is_written_is_read(tmp_path):
    tensors = {"a": torch.arange(6.0).view(2, 3).T, "b": torch.tensor(7)}
    state.write_tensors(tmp_path / "x.safetensors", tensors)
    found = state.read_tensors(tmp_path / "x.safetensors")

    assert found.keys() == tensors.keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in tensors.items())


@pytest.mark.parametrize("steps", [torch.zeros(3), torch.tensor(2), torch.zeros(0)])
def test_a_counter_of_steps_that_is_none_is_named_before_the_first_step(steps):
    model = nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    tensors = state.optimizer_tensors(optimizer, model)
    with pytest.raises(CheckpointError) as caught:
        state.load_optimizer(optimizer, model, tensors | {"bias/step": steps}, "last")
    assert str(caught.value) == (
        f"last/optimizer.safetensors: expected bias/step of one float, found {steps.dtype} and {tuple(steps.shape)}. The "
        "checkpoint is damaged: use another one of the run."
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.int32])
def test_weights_of_another_type_are_named(dtype):
    model = nn.Linear(3, 2)
    tensors = {name: tensor.to(dtype) for name, tensor in model.state_dict().items()}
    with pytest.raises(CheckpointError) as caught:
        state.load_model(model, tensors, "runs/1/checkpoints/last")
    assert str(caught.value) == (
        f"runs/1/checkpoints/last: expected bias of torch.float32, found {dtype}, which would be rounded in silence. The "
        "checkpoint is damaged: use another one of the run."
    )
