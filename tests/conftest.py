from __future__ import annotations

import os
import signal
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from support import broker as brokers

import penstock
from penstock.datasets import inspect, pack, scenes

# Child processes import what this one tests, not what is installed.
os.environ["PYTHONPATH"] = os.pathsep.join((str(Path(penstock.__file__).parents[1]), str(Path(__file__).parent)))

# What this user trusts is not for tests to add to.
_STATE = tempfile.TemporaryDirectory(prefix="penstock-state-")
os.environ["XDG_STATE_HOME"] = _STATE.name

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts what it leaves in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)  # children inherit it, and are to hear Ctrl-C

settings.register_profile("penstock", deadline=None, max_examples=60)
settings.load_profile("penstock")

pytest_plugins = ["support.fixtures"]

REAL_DATA = Path(os.environ.get("PENSTOCK_TEST_DATA", Path(__file__).parents[2] / "shared" / "data"))


def pytest_collection_modifyitems(items):
    """What uses a real broker is slow."""
    for item in items:
        world = item.callspec.params.get("world") if hasattr(item, "callspec") else None
        if world == "broker" or {"broker", "servers"} & set(item.fixturenames):
            item.add_marker("slow")


def pytest_unconfigure():
    _STATE.cleanup()


@pytest.fixture(scope="session")
def real_data():
    """A folder of real datasets; tests that want one skip where it is absent."""

    def find(name):
        folder = REAL_DATA / name
        if not folder.exists():
            pytest.skip(f"no real data: {folder} is not there (set PENSTOCK_TEST_DATA)")
        return folder

    return find


@pytest.fixture(scope="session")
def raw(tmp_path_factory):
    """A folder of 21 training, 7 validation images with masks, 64 x 96."""
    folder = tmp_path_factory.mktemp("raw")
    scenes.write_folder(folder, {"train": 21, "val": 7}, (64, 96), seed=3)
    return folder


@pytest.fixture(scope="session")
def packed(raw, tmp_path_factory):
    """The same, packed into several shards."""
    from penstock.datasets import PackOptions

    folder = tmp_path_factory.mktemp("packed")
    return pack(inspect(raw), folder, PackOptions(shard_bytes=20_000))


@pytest.fixture(scope="session")
def servers(tmp_path_factory):
    """A Kafka cluster: the one that PENSTOCK_TEST_KAFKA names, or one of our own with a single node."""
    if named := os.environ.get("PENSTOCK_TEST_KAFKA"):
        yield named
        return
    if reason := brokers.missing():
        if os.environ.get("PENSTOCK_REQUIRE_KAFKA"):
            pytest.fail(f"no Kafka broker: {reason}")
        pytest.skip(f"no Kafka broker: {reason} (or set PENSTOCK_TEST_KAFKA=host:port)")
    with brokers.Cluster(tmp_path_factory.mktemp("kafka")) as cluster:
        yield cluster.servers


@pytest.fixture(scope="session")
def broker(servers):
    """Topics of a real broker."""
    from support.worlds import RealWorld

    world = RealWorld(servers)
    yield world
    world.close()


@pytest.fixture(params=["fake", "broker"])
def world(request):
    """Topics in memory, and topics of a real broker."""
    from support.worlds import FakeWorld

    return FakeWorld() if request.param == "fake" else request.getfixturevalue("broker")
