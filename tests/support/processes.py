"""Real processes: forked from one that has imported the libraries, started again, sampled, and killed with everything
they started.

Importing PyTorch takes longer than most of what a child is asked to do. So a child that stands for `python program.py`,
`python -m penstock` or a rank of torchrun is forked from a server that imported everything once, and is a process like
any other from then on: it has its own memory, session and exit code, and dies of any signal. Tests of torchrun itself, and of
how a command starts, use `subprocess`.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.forkserver
import os
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from support.ports import free_ports

LIBRARIES = [
    "pytest", "torch", "torchvision.models.detection", "timm", "segmentation_models_pytorch", "torch.utils.tensorboard",
    "torch.distributed.elastic.multiprocessing.errors", "confluent_kafka", "safetensors.torch",
    "torch._dynamo", "penstock.training", "penstock.cli.main", "processes", "training",
]  # fmt: skip
"""What the server imports; what is not there is left out."""


def _forget():
    """A fork of a test process starts a server of its own: it cannot wait for that of its parent."""
    server = multiprocessing.forkserver._forkserver
    server._forkserver_pid = server._forkserver_alive_fd = server._forkserver_address = None


os.register_at_fork(after_in_child=_forget)


def quiet():
    """The environment of a child: one thread, and this checkout's packages (conftest.py)."""
    return {**os.environ, "OMP_NUM_THREADS": "1"}


class Child:
    """A process that does what `python` with some words does, with the part of Popen's interface that tests use.

    Attributes:
        out, err: the files that it prints to.
    """

    def __init__(self, words, *, env=None, cwd=None, log=None, output=None):
        """`log` takes both of its streams; `output` is a folder of descriptors, 1 and 2."""
        self._folder = None if log or output else Path(tempfile.mkdtemp())
        self.out, self.err = (log, log) if log else (f"{output}/1", f"{output}/2")
        if self._folder:
            self.out, self.err = self._folder / "out", self._folder / "err"
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(LIBRARIES)
        begin = ([str(word) for word in words], env or quiet(), str(cwd or Path.cwd()), str(self.out), str(self.err))
        self._process = context.Process(target=_become, args=begin, daemon=True)
        os.environ.setdefault("OMP_NUM_THREADS", "1")  # of the server, which PyTorch reads when it is imported
        self._process.start()
        self.pid = self._process.pid

    @property
    def returncode(self):
        return self._process.exitcode

    def poll(self):
        return self._process.exitcode

    def wait(self, timeout=None):
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
        return self.returncode

    def send_signal(self, number):
        os.kill(self.pid, number)

    def printed(self):
        """What it printed and what it complained of, once it has ended; one that was killed at once made no files."""
        texts = [path.read_text() if path.exists() else "" for path in (self.out, self.err)]
        if self._folder:
            shutil.rmtree(self._folder)
        return texts


def _become(words, environment, folder, out, err):
    os.setsid()
    multiprocessing.current_process()._config["daemon"] = False
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for path, number in ((out, 1), (err, 2)):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(handle, number)
        os.close(handle)
    # What the server opened knows of the server's streams whether they can be sought in.
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115
    signal.signal(signal.SIGINT, signal.default_int_handler)
    option, *rest = words
    if option == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif option == "-c":
        sys.argv = ["-c", *rest[1:]]
        exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv = words
        sys.path.insert(0, str(Path(option).parent))
        runpy.run_path(option, run_name="__main__")


@dataclass(frozen=True)
class Done:
    """How a process ended, or several that worked together."""

    returncode: int
    stdout: str
    stderr: str


def forked(words, env):
    """What `python` with these words does in a fork of this process, which has imported what it needs."""
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        begin = (list(words), env, str(Path.cwd()), str(out), str(err))
        process = multiprocessing.get_context("fork").Process(target=_become, args=begin)
        process.start()
        process.join()
        return Done(process.exitcode, out.read_text(), err.read_text())


def run(*words, timeout=300, check=False, **options):
    """What `python` with these words does, once it has ended; one that takes too long is killed."""
    child = Child(words, **options)
    try:
        child.wait(timeout)
    finally:
        if child.poll() is None:
            kill_tree(child)
    done = Done(child.returncode, *child.printed())
    assert done.returncode == 0 or not check, done.stderr
    return done


SCRIPT = """#!/bin/bash
me={folder}/$$
mkfifo $me.end
{{ printf '%s\\0' "$PWD" "$@"; }} >$me.words
env -0 >$me.environment
mv $me.words $me.call
read -r code <$me.end
exit $code
"""


@contextlib.contextmanager
def executable(folder, module):
    """A program for scripts that does what `python -m MODULE` does, as a `Child` with the script's own output.

    Yields:
        A PATH on which it is found.
    """
    calls = Path(tempfile.mkdtemp())
    folder.mkdir(exist_ok=True)
    (folder / module).write_text(SCRIPT.format(folder=calls))
    (folder / module).chmod(0o755)
    done = threading.Event()
    server = threading.Thread(target=_serve, args=(calls, module, done))
    server.start()
    try:
        yield f"{folder}:{os.environ['PATH']}"
    finally:
        done.set()
        server.join()
        shutil.rmtree(calls)


def _serve(calls, module, done):
    while not done.wait(0.02):
        for call in calls.glob("*.call"):
            cwd, *words = call.read_text().split("\0")[:-1]
            environment = dict(
                each.split("=", 1) for each in call.with_suffix(".environment").read_text().split("\0")[:-1]
            )
            call.unlink()
            child = Child(["-m", module, *words], env=environment, cwd=cwd, output=f"/proc/{call.stem}/fd")
            _answer(call.with_suffix(".end"), call.stem, child.wait(300))


def _answer(pipe, pid, code):
    """Give a script the exit code of its command, unless it was killed while it waited: nobody reads its pipe then."""
    while Path(f"/proc/{pid}").exists():
        with contextlib.suppress(OSError):  # it has not begun to read
            handle = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
            os.write(handle, f"{code}\n".encode())
            os.close(handle)
            return
        time.sleep(0.01)


class Ranks:
    """Ranks of one training, as torchrun starts them: where one fails, the others are ended."""

    def __init__(self, count, words, *, env=None, log=None):
        (port,) = free_ports(1)
        where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(count)}
        self.children = []
        for rank in range(count):
            own = {"RANK": str(rank), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(count)}
            self.children.append(Child(words, env={**(env or quiet()), **where, **own}, log=log))

    def poll(self):
        """The exit code once all have ended, else None."""
        codes = [child.poll() for child in self.children]
        return None if None in codes else int(any(codes))

    def wait(self, timeout=300):
        """The exit code: 0, or 1 where a rank failed."""
        end = time.monotonic() + timeout
        try:
            while any(child.poll() is None for child in self.children):
                if any(child.poll() for child in self.children):
                    self.end()
                if time.monotonic() > end:
                    raise subprocess.TimeoutExpired("ranks", timeout)
                time.sleep(0.02)
        finally:
            self.kill()
        return int(any(child.returncode for child in self.children))

    def end(self, patience=10):
        """SIGTERM for those that are left, and SIGKILL for those that do not heed it."""
        for child in self.children:
            with contextlib.suppress(ProcessLookupError):
                if child.poll() is None:
                    child.send_signal(signal.SIGTERM)
        end = time.monotonic() + patience
        while any(child.poll() is None for child in self.children) and time.monotonic() < end:
            time.sleep(0.02)
        self.kill()

    def kill(self):
        """SIGKILL for all that are left."""
        for child in self.children:
            if child.poll() is None:
                kill_tree(child)


def ranks(count, *words, timeout=300, **options):
    """What several ranks did together."""
    started = Ranks(count, words, **options)
    code = started.wait(timeout)
    printed = [child.printed() for child in started.children]
    return Done(code, "".join(out for out, _ in printed), "".join(err for _, err in printed))


def elastic(count, *words, restarts=2):
    """What several ranks did under torchrun's own agent, which starts all of them again when one fails."""
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    multiprocessing.get_context("forkserver").set_forkserver_preload(LIBRARIES)
    folder = Path(tempfile.mkdtemp())
    config = LaunchConfig(
        min_nodes=1, max_nodes=1, nproc_per_node=count, max_restarts=restarts, start_method="forkserver",
        rdzv_backend="c10d", rdzv_endpoint="localhost:0", run_id=folder.name, monitor_interval=0.1,
        logs_specs=DefaultLogsSpecs(log_dir=str(folder / "logs")),
    )  # fmt: skip
    out = folder / "out"
    elastic_launch(config, _as_rank)([str(word) for word in words], str(out))
    printed = out.read_text()
    shutil.rmtree(folder)
    return printed


def _as_rank(words, out):
    _become(words, quiet(), str(Path.cwd()), out, out)


def kill_tree(process):
    """SIGKILL for a process and all that it started, in whatever session: torchrun puts each rank into its own."""
    found = [process.pid]
    for pid in found:
        found += [int(child) for child in children(pid)]
    for pid in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()
    return len(found)


def children(pid):
    """What the threads of a process have started. Threads and whole processes may end while this reads."""
    found = []
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                found += (thread / "children").read_text().split()
    return found


class Program:
    """A process that is started again whenever it was killed, and sampled while it runs."""

    def __init__(self, command, log):
        self.command, self.log = command, log
        self.samples = []
        self.start()

    def start(self):
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(self.command(), env=quiet(), stdout=out, stderr=out, start_new_session=True)
        self.samples.append([])

    def sample(self):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        (line,) = [line for line in status.splitlines() if line.startswith("VmRSS")]
        self.samples[-1].append(int(line.split()[1]) >> 10)

    def alive(self):
        assert self.process.poll() is None, self.log.read_text()[-3000:]

    def kill_and_restart(self):
        kill_tree(self.process)
        self.start()
