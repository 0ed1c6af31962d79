from __future__ import annotations

import hashlib

import pytest
import safetensors.torch
import timm
import torch
from support import hub, processes

from penstock.errors import RecipeError, WeightsError
from penstock.models import build_segmenter, load_matching, parse_name, pretrained

pytestmark = pytest.mark.slow


class TestWeights:
    def test_without_a_network_the_error_says_what_to_do(self, monkeypatch, tmp_path):
        from huggingface_hub import constants

        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
        with pytest.raises(WeightsError) as caught:
            build_segmenter("unet:resnet18", 2, "pretrained")
        assert str(caught.value) == (
            "The pretrained weights of resnet18 are not in the local cache and cannot be downloaded: HF_HUB_OFFLINE is set. "
            "Connect to the network once (without HF_HUB_OFFLINE), train from random weights with --weights none (--set "
            "model.weights=none), or give a downloaded file with "
            "--weights FILE."
        )

    def test_a_hub_that_does_not_answer_is_asked_again_next_time(self, monkeypatch, tmp_path):
        from huggingface_hub import constants

        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
        monkeypatch.setattr(constants, "ENDPOINT", "https://127.0.0.1:9")
        monkeypatch.setattr(pretrained, "getproxies", dict)
        with pytest.raises(WeightsError) as caught:
            build_segmenter("unet:resnet18", 2, "pretrained")

        assert str(caught.value).startswith(
            "The pretrained weights of resnet18 are not in the local cache and cannot be downloaded: "
            "https://127.0.0.1:9 does not answer. Connect to the network once (without "
        )
        assert not constants.HF_HUB_OFFLINE

    def test_an_unreachable_hub_is_noticed_at_once(self, monkeypatch):
        monkeypatch.setattr(pretrained, "getproxies", dict)

        assert not pretrained.is_reachable("https://127.0.0.1:9")
        monkeypatch.setattr(pretrained, "getproxies", lambda: {"https": "proxy"})
        assert pretrained.is_reachable("https://127.0.0.1:9")

    def test_a_file_of_timms_format_is_loaded(self, tmp_path):
        original = timm.create_model("test_resnet")
        torch.save(original.state_dict(), tmp_path / "w.pth")
        model = build_segmenter("unet:test_resnet", 2, str(tmp_path / "w.pth"))

        assert torch.equal(model.encoder.model.conv1[0].weight, original.conv1[0].weight)

    def test_files_that_are_missing_or_of_another_backbone_are_named(self, tmp_path):
        with pytest.raises(WeightsError) as caught:
            build_segmenter("unet:test_resnet", 2, "nothing.pth")
        assert str(caught.value) == (
            "nothing.pth: expected 'pretrained', 'none', or a file of backbone weights with timm's parameter names, found no such "
            "file. Check the path."
        )
        torch.save(timm.create_model("test_convnext").state_dict(), tmp_path / "other.pth")
        with pytest.raises(WeightsError, match=r"expected weights that fit the backbone, found 15 of 90 tensors"):
            build_segmenter("unet:test_resnet", 2, str(tmp_path / "other.pth"))
        (tmp_path / "text.pth").write_text("no weights")
        with pytest.raises(WeightsError, match="found a file that cannot be read"):
            build_segmenter("unet:test_resnet", 2, str(tmp_path / "text.pth"))
        with pytest.raises(WeightsError, match="found a Mix Transformer"):
            build_segmenter("segformer:mit_b0", 2, str(tmp_path / "other.pth"))

    def test_a_file_is_read_without_executing_anything(self, tmp_path, monkeypatch):
        """Some versions of timm that are supported execute pickles unless they are told not to."""
        told = []
        monkeypatch.setattr(timm.models, "load_state_dict", lambda path, **options: told.append(options) or {})
        (tmp_path / "a.pth").write_bytes(b"x")
        with pytest.raises(WeightsError):
            pretrained.from_file(lambda **_: None, "resnet18", tmp_path / "a.pth", native=False)
        assert told == [{"weights_only": True}]

    def test_partial_loads_account_for_every_tensor(self):
        first = build_segmenter("unet:test_resnet", 2, "none")
        second = build_segmenter("unet:test_resnet", 3, "none")
        tensors = {**first.state_dict(), "extra": torch.zeros(1)}
        del tensors["encoder.model.conv1.0.weight"]
        account = load_matching(second, tensors, "x", strict=False)

        assert account.reshaped == ("segmentation_head.0.weight", "segmentation_head.0.bias")
        assert account.missing == ("encoder.model.conv1.0.weight",)
        assert account.unused == ("extra",)
        assert len(account.loaded) == len(second.state_dict()) - 3
        assert account.lines()[0] == f"loaded {len(account.loaded)} of {len(second.state_dict())} tensors"


class TestDownload:
    """In processes of their own, as the hub's client reads its settings when it is imported: here once more."""

    @pytest.fixture
    def train(self, tmp_path):
        program = (
            "import importlib, sys; from huggingface_hub import constants; importlib.reload(constants)\n"
            "import timm, torch; from penstock.models import build_segmenter\n"
            "from penstock.errors import WeightsError\n"
            "constants.DOWNLOAD_CHUNK_SIZE = 50_000  # resumes at these\n"
            "try: model = build_segmenter('unet:test_resnet', 2, 'pretrained')\n"
            "except WeightsError as error: sys.exit(str(error))\n"
            "torch.save(model.encoder.model.state_dict(), sys.argv[1])"
        )
        out = tmp_path / "out.pth"

        def run(address):
            settings = {"HF_ENDPOINT": address, "HF_HOME": str(tmp_path / "hub"), "no_proxy": "127.0.0.1"}
            done = processes.run("-c", program, out, env={**processes.quiet(), **settings})
            return torch.load(out) if done.returncode == 0 else done.stderr

        return run

    @pytest.fixture
    def published(self, tmp_path):
        torch.manual_seed(1)
        model = timm.create_model("test_resnet")
        safetensors.torch.save_file(model.state_dict(), tmp_path / "published")
        return model.state_dict(), (tmp_path / "published").read_bytes()

    def test_weights_are_downloaded_once(self, train, published):
        tensors, content = published
        with hub.serve(content) as (address, requests):
            found = train(address)
        again = train(address)

        assert ("GET", None) in requests
        for loaded in (found, again):
            assert all(torch.equal(tensors[name], tensor) for name, tensor in loaded.items())
            assert len(loaded) > 80

    def test_a_download_that_breaks_goes_on_where_it_stopped(self, train, published):
        tensors, content = published
        with hub.serve(content, cuts=[100_000]) as (address, requests):
            found = train(address)

        assert ("GET", "bytes=100000-") in requests
        assert all(torch.equal(tensors[name], tensor) for name, tensor in found.items())

    def test_a_damaged_cache_is_named_by_its_checksum(self, train, published, tmp_path):
        content = published[1]
        with hub.serve(content) as (address, _):
            train(address)
        (blob,) = (tmp_path / "hub").rglob("blobs/*")
        damaged = bytearray(content)
        damaged[len(content) // 2] ^= 1
        blob.write_bytes(damaged)
        (link,) = (tmp_path / "hub").rglob("snapshots/*/model.safetensors")
        assert train(address).strip() == (
            f"{link}: expected weights with SHA-256 {blob.name}, found {hashlib.sha256(damaged).hexdigest()}. The "
            "download is damaged. Remove the file and train again."
        )


@pytest.mark.parametrize("weights", ["none", "pretrained"])
def test_a_backbone_that_does_not_go_with_an_architecture_is_no_matter_of_weights(weights, monkeypatch):
    monkeypatch.setattr("penstock.models.pretrained.is_reachable", lambda _: False)
    with pytest.raises(
        RecipeError, match=r"^model\.name: expected a backbone that the architecture takes, found vit_tiny"
    ):
        build_segmenter("unet:vit_tiny_patch16_224", 2, weights)


def test_backbones_without_published_weights_are_known():
    assert parse_name("unet:resnet50_mlp.untrained") == ("unet", "resnet50_mlp.untrained")
