"""Pretrained backbones: from the Hugging Face hub (or its cache), or from a file of timm's format."""

from __future__ import annotations

import contextlib
import functools
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import getproxies

import timm
from huggingface_hub import constants, hf_hub_download, try_to_load_from_cache
from huggingface_hub.errors import LocalEntryNotFoundError

from penstock.errors import PenstockError, RecipeError, WeightsError, is_out_of_memory, reason_of
from penstock.files import sha256
from penstock.models.weights import Loaded, first_named

_FILES: Final = ("model.safetensors", "pytorch_model.bin")
_NOT_CACHED: Final = (
    "Connect to the network once, or train from the weights of the backbone with --weights pretrained, or from random "
    "ones with --weights none"
)
_REPOSITORY: Final = re.compile(r"[\w.-]+/[\w.-]+")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_REMEDY: Final = (
    "Connect to the network once (without HF_HUB_OFFLINE), train from random weights with --weights none (--set "
    "model.weights=none), or give a downloaded file with --weights FILE"
)


def weighted(build: functools.partial[Any], backbone: str, weights: str, *, native: bool = False) -> Any:
    """Build a model whose backbone has the weights that are asked for.

    Args:
        build: takes `encoder_weights`.
        backbone: as timm names it, or a Mix Transformer of segmentation_models.pytorch.
        weights: "pretrained" (timm's), "none", the path of a file of timm's format, or OWNER/NAME of a repository on
            the hub that holds one.
        native: whether it is a Mix Transformer.

    Raises:
        RecipeError: the backbone does not go with the architecture.
        WeightsError: the weights cannot be had, or do not fit.
    """
    if weights == "none":
        return _blank(build, backbone)
    if weights == "pretrained":
        return from_hub(build, backbone, native=native)
    if is_repository(weights):
        return from_file(build, backbone, Path(fetched(weights, "model.safetensors")), native=native)
    return from_file(build, backbone, Path(weights), native=native)


def is_repository(weights: str) -> bool:
    """Whether weights are named as OWNER/NAME, a repository of the hub, and are no file."""
    return bool(_REPOSITORY.fullmatch(weights)) and not Path(weights).exists()


def _blank(build: functools.partial[Any], backbone: str) -> Any:
    try:
        return build(encoder_weights=None)
    except PenstockError:  # of a builder of our own, which knows better
        raise
    except Exception as error:
        # timm and segmentation_models.pytorch raise a dozen unrelated types for what they cannot make.
        if is_out_of_memory(error):
            raise
        raise RecipeError(
            "model.name",
            expected="a backbone that the architecture takes",
            found=f"{backbone} ({reason_of(error)})",
            remedy="Choose a convolutional backbone, such as resnet50",
        ) from error


def from_hub(build: functools.partial[Any], backbone: str, *, native: bool) -> Any:
    """Build a model whose backbone has its published weights, downloading them where the cache lacks them.

    A broken download is resumed by the next attempt. What the cache holds is compared with the checksum that the hub
    gave for it.

    Args:
        build: takes `encoder_weights`.
        backbone: as timm names it, or a Mix Transformer of segmentation_models.pytorch.
        native: whether it is one of the latter.

    Raises:
        WeightsError: the weights cannot be had, or are damaged.
    """
    try:
        with hub_client(offline=is_offline()):
            model = build(encoder_weights="imagenet" if native else True)
    except Exception as error:
        # huggingface_hub, its HTTP client and timm raise a dozen unrelated types here.
        _blank(build, backbone)  # it may be no matter of weights
        _check_cache(backbone, native=native)
        raise WeightsError(
            f"weights of {backbone}",
            remedy=_REMEDY,
            message=f"The pretrained weights of {backbone} are not in the local cache and cannot be downloaded: "
            f"{_reason(error)}.",
        ) from error
    _check_cache(backbone, native=native)
    return model


def _reason(error: Exception) -> str:
    if not isinstance(error, LocalEntryNotFoundError):
        return reason_of(error)
    return "HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE else f"{constants.ENDPOINT} does not answer"


def _check_cache(backbone: str, *, native: bool) -> None:
    """Compare the cached file with its checksum: the hub's cache names large files by their SHA-256."""
    for cached in [] if native else _cached(backbone) or []:
        blob = cached.resolve()
        if _SHA256.fullmatch(blob.name) and (found := sha256(blob)) != blob.name:
            raise WeightsError(
                str(cached),
                expected=f"weights with SHA-256 {blob.name}",
                found=found,
                remedy="The download is damaged. Remove the file and train again",
            )


def _cached(backbone: str) -> list[Path] | None:
    """Files of weights of a backbone in the hub's cache; None where timm has none of it on the hub."""
    config = timm.models.get_pretrained_cfg(backbone)
    if config is None or not config.hf_hub_id:
        return None
    names = (config.hf_hub_filename,) if config.hf_hub_filename else _FILES
    found = (try_to_load_from_cache(config.hf_hub_id, name) for name in names)
    return [Path(each) for each in found if isinstance(each, str)]


def is_cached(backbone: str) -> bool | None:
    """Whether the pretrained weights of a backbone are in the hub's cache; None where they do not come from there."""
    cached = _cached(backbone)
    return None if cached is None else bool(cached)


def is_offline() -> bool:
    """Whether nothing can be downloaded from the hub."""
    return bool(constants.HF_HUB_OFFLINE) or not is_reachable(constants.ENDPOINT)


@contextlib.contextmanager
def hub_client(*, offline: bool) -> Iterator[None]:
    """Let the hub's client use its cache alone where the hub does not answer: its retries take a minute."""
    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = offline
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


def is_reachable(endpoint: str) -> bool:
    """Whether the hub can be spoken to at all."""
    if getproxies():
        return True
    address = urlsplit(endpoint)
    try:
        socket.create_connection((address.hostname or "", address.port or 443), timeout=5).close()
    except OSError:
        return False
    return True


def from_file(build: functools.partial[Any], backbone: str, path: Path, *, native: bool) -> Any:
    """Build a model whose backbone has the weights of a file; arguments as for `from_hub`.

    Raises:
        WeightsError: there is no such file, or it does not fit.
    """
    if not path.is_file():
        raise WeightsError(
            str(path),
            expected="'pretrained', 'none', or a file of backbone weights with timm's parameter names",
            found="no such file",
            remedy="Check the path",
        )
    if native:
        raise WeightsError(
            str(path),
            expected="a backbone of timm, to load a file into",
            found="a Mix Transformer of segmentation_models.pytorch",
            remedy="Use --weights pretrained or --weights none with it",
        )
    account_of(backbone, path)
    try:
        overlay = {"file": str(path), "hf_hub_id": None, "url": ""}
        return build(encoder_weights=True, pretrained_cfg_overlay=overlay)
    except (RuntimeError, KeyError, ValueError, OSError) as error:
        _blank(build, backbone)
        raise _no_fit(path, str(error).strip().splitlines()[0][:200]) from error


def account_of(backbone: str, path: Path) -> Loaded:
    """What becomes of the tensors of a file. All of the backbone must be in it: timm would leave the others random,
    without a word.

    Raises:
        WeightsError: the file is no weights, or of another backbone.
    """
    expected = timm.create_model(backbone, num_classes=0).state_dict()
    try:
        found = timm.models.load_state_dict(str(path), weights_only=True)
    except Exception as error:
        # torch, pickle and safetensors raise unrelated types here.
        raise _no_fit(path, f"a file that cannot be read ({type(error).__name__})") from error
    missing = [name for name, mine in expected.items() if name not in found or found[name].shape != mine.shape]
    missing = [name for name in missing if not name.endswith("num_batches_tracked")]
    if missing:
        raise _no_fit(
            path, f"{len(expected) - len(missing)} of {len(expected)} tensors that fit; not {first_named(missing)}"
        )
    return Loaded(tuple(expected), unused=tuple(name for name in found if name not in expected))


def _no_fit(path: Path, found: str) -> WeightsError:
    return WeightsError(
        str(path),
        expected="weights that fit the backbone",
        found=found,
        remedy="Give the weights of the same backbone, as timm saves them",
    )


def fetched(repository: str, name: str) -> str:
    """The path of a file of a repository, from the hub or its cache.

    Raises:
        WeightsError: it cannot be had.
    """
    try:
        with hub_client(offline=is_offline()):
            return hf_hub_download(repository, name)
    except Exception as error:
        # huggingface_hub and its HTTP client raise unrelated types here.
        raise unavailable(f"{repository}/{name}", reason_of(error)) from error


def unavailable(name: str, found: str) -> WeightsError:
    """The error for published weights that cannot be had."""
    return WeightsError(
        f"weights {name}",
        remedy=_NOT_CACHED,
        message=f"The weights {name} are not in the local cache and cannot be downloaded: {found}.",
    )
