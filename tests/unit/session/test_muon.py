from __future__ import annotations

import pytest
import torch
from torch import nn

from penstock.models import build_classifier
from penstock.session import state
from penstock.session.muon import MuonOptimizer, orthogonal
from penstock.session.optimizer import make_optimizer
from penstock.settings import optimizer as chosen


class TestMuon:
    def one_step(self, **settings):
        """A network's parameters before and after a step without gradients, as the session takes it."""
        model = build_classifier("test_resnet", 3, "none")
        optimizer = make_optimizer(chosen.Muon(lr=0.1, **settings), model)
        before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
        for group in optimizer.param_groups:
            group["lr"] = 0.1 * group["lr_mult"]
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        optimizer.step()
        return before, {name: parameter.detach() for name, parameter in model.named_parameters()}

    def test_filters_may_be_kept_at_unit_norm_in_place_of_decay(self):
        before, after = self.one_step(unit_filters=True, weight_decay=0.5)
        filters = [name for name, parameter in before.items() if parameter.ndim == 4]

        assert len(filters) > 5
        for name in filters:
            squares = before[name].flatten(1).square().sum(dim=1)
            assert torch.allclose(after[name], before[name] / squares.mean().sqrt(), rtol=1e-5)
            assert float(after[name].flatten(1).square().sum(dim=1).mean()) == pytest.approx(1, abs=1e-5)
        assert torch.allclose(after["head.weight"], before["head.weight"] * 0.95)

    def test_what_multiplies_a_rate_does_not_multiply_its_decay(self):
        before, after = self.one_step(weight_decay=0.5, head_lr_mult=7.0, bias_lr_mult=3.0)
        for name, parameter in before.items():
            assert torch.allclose(after[name], parameter * (0.95 if parameter.ndim > 1 else 1.0)), name

    def test_biases_decay_where_they_are_to(self):
        before, after = self.one_step(weight_decay=0.5, bias_lr_mult=3.0, decay_biases=True)

        assert any(parameter.ndim == 1 and parameter.any() for parameter in before.values())
        for name, parameter in before.items():
            assert torch.allclose(after[name], parameter * 0.95), name

    def test_filters_and_the_rest_have_momenta_of_their_own(self):
        model = build_classifier("test_resnet", 3, "none")
        optimizer = make_optimizer(chosen.Muon(lr=0.1, momentum=0.6, sgd_momentum=0.85), model)

        assert {(group["orthogonal"], group["momentum"]) for group in optimizer.param_groups} == {
            (True, 0.6),
            (False, 0.85),
        }

    def test_a_head_that_does_not_learn_does_not_decay(self):
        before, after = self.one_step(weight_decay=0.5, head_lr_mult=0.0)

        assert torch.equal(after["head.weight"], before["head.weight"])

    def test_a_group_that_says_nothing_takes_nesterovs_step_without_decay(self):
        ours, theirs = (nn.Parameter(torch.linspace(-1, 1, 12).view(3, 4)) for _ in range(2))
        muon = MuonOptimizer([{"params": [ours]}], lr=0.1, momentum=0.8)
        sgd = torch.optim.SGD([theirs], lr=0.1, momentum=0.8, nesterov=True)
        for number in range(4):
            for parameter, optimizer in ((ours, muon), (theirs, sgd)):
                parameter.grad = torch.cos(parameter.detach() + number)
                optimizer.step()

        torch.testing.assert_close(ours, theirs)

    def test_its_state_has_sgds_name(self):
        model = nn.Linear(2, 3)
        muon = MuonOptimizer([{"params": list(model.parameters())}], lr=0.1, momentum=0.8)
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

    def test_updates_are_nearly_orthogonal(self):
        torch.manual_seed(0)
        for shape in ((8, 40), (40, 8), (16, 16)):
            matrix = torch.randn(shape)
            values = torch.linalg.svdvals(orthogonal(matrix)) / max(1, shape[0] / shape[1]) ** 0.5
            assert float(values.min()) > 0.5
            assert float(values.max()) < 1.3

    def test_filters_are_orthogonal_and_the_rest_is_sgd(self):
        model = build_classifier("test_resnet", 3, "none")
        optimizer = make_optimizer(chosen.Muon(lr=0.1, weight_decay=0.01), model)
        twin = build_classifier("test_resnet", 3, "none")
        twin.load_state_dict(model.state_dict())
        plain = torch.optim.SGD(
            [{"params": [p], "weight_decay": 0.0} for p in twin.parameters()], lr=0.1, momentum=0.9, nesterov=True
        )
        images = torch.randn(4, 3, 32, 32)
        for _ in range(3):
            for network, own in ((model, optimizer), (twin, plain)):
                own.zero_grad()
                network(images).square().sum().backward()
            before = {name: p.detach().clone() for name, p in model.named_parameters()}
            for (name, p), q in zip(model.named_parameters(), twin.parameters(), strict=True):
                q.grad.copy_(p.grad)
                assert torch.equal(before[name], p)
            optimizer.step()
            plain.step()
        bias = "head.bias"

        assert isinstance(optimizer, MuonOptimizer)
        assert torch.allclose(dict(model.named_parameters())[bias], dict(twin.named_parameters())[bias], atol=1e-6)
        filters = [p for group in optimizer.param_groups if group["orthogonal"] for p in group["params"]]
        assert len(filters) > 5
        assert all(p.ndim == 4 for p in filters)
