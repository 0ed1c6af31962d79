"""A real Apache Kafka cluster on loopback, in KRaft mode: started, killed, paused and ended by tests.

Needs Java 17 or later, and Maven the first time; the broker's jars (43 MB) are kept in PENSTOCK_KAFKA_JARS, by default
~/.cache/penstock/kafka-4.2.0.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from support.ports import free_ports

JARS = Path(os.environ.get("PENSTOCK_KAFKA_JARS", Path.home() / ".cache/penstock/kafka-4.2.0"))
POM = Path(__file__).with_name("broker.pom.xml")
CLUSTER = "cGVuc3RvY2stdGVzdHMtMQ"
PROPERTIES = """\
process.roles=broker,controller
node.id={node}
controller.quorum.voters={voters}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}{secure_listener}
advertised.listeners=PLAINTEXT://127.0.0.1:{advertised}{secure_listener}
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL
log.dirs={home}/data
default.replication.factor={replicas}
min.insync.replicas={insync}
offsets.topic.replication.factor={replicas}
transaction.state.log.replication.factor={replicas}
transaction.state.log.min.isr={insync}
offsets.topic.num.partitions=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
message.max.bytes=16777216
replica.fetch.max.bytes=16777216
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
"""
SECURE = """\
sasl.enabled.mechanisms=SCRAM-SHA-256,OAUTHBEARER
listener.name.secure.oauthbearer.sasl.jaas.config=\
  org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";
listener.name.secure.oauthbearer.sasl.server.callback.handler.class=\
  org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler
listener.name.secure.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
ssl.keystore.location={home}/keys.p12
ssl.keystore.type=PKCS12
ssl.keystore.password=keystore-secret
"""
LOGGING = """\
rootLogger.level=warn
rootLogger.appenderRef.c.ref=c
appender.c.type=Console
appender.c.name=c
appender.c.layout.type=PatternLayout
appender.c.layout.pattern=%d %p %m (%c)%n
"""


def missing() -> str:
    """Why no broker can be started here; empty if one can."""
    if shutil.which("java") is None:
        return "no Java is installed"
    if not any(JARS.glob("kafka_2.13-*.jar")) and shutil.which("mvn") is None:
        return "neither Kafka's jars (PENSTOCK_KAFKA_JARS) nor Maven to fetch them are there"
    return ""


def fetch():
    """Have Maven copy the broker's jars."""
    if any(JARS.glob("kafka_2.13-*.jar")):
        return
    part = JARS.with_name(f"{JARS.name}.{os.getpid()}.partial")
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={part}"]
    subprocess.run(["mvn", "-q", "-B", "-f", POM, *goal], check=True, capture_output=True)
    with contextlib.suppress(OSError):  # another process was faster
        part.rename(JARS)


def _end_with_parent() -> None:
    """SIGKILL when whoever started this is killed itself, and cannot stop its brokers."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


@dataclass
class Node:
    """One broker: its folder, its port and its process."""

    home: Path
    port: int
    process: subprocess.Popen | None = field(default=None, repr=False)

    def java(self, *words: str) -> list[str]:
        settings = [f"-Dlog4j2.configurationFile={self.home}/log4j2.properties", f"-Djava.io.tmpdir={self.home}"]
        return [
            "java",
            "-Xmx512m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-cp",
            f"{JARS}/*",
            *settings,
            *words,
        ]

    def start(self) -> None:
        with (self.home / "log").open("ab") as log:
            self.process = subprocess.Popen(
                self.java("kafka.Kafka", str(self.home / "server.properties")),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=_end_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509 - it calls C alone
            )

    def wait(self, seconds: float = 90) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            assert self.process is not None
            assert self.process.poll() is None, (self.home / "log").read_text()[-3000:]
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.1)
        raise TimeoutError((self.home / "log").read_text()[-3000:])

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)
        if number == signal.SIGSTOP:  # takes effect when the process next runs; until then its threads go on answering
            os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.process.wait()

    def restart(self) -> None:
        self.start()
        self.wait()


class Cluster:
    """Some brokers; a context manager that ends all of them."""

    def __init__(
        self, folder: Path, nodes: int = 1, *, advertised: int = 0, user: str = "", password: str = ""
    ) -> None:
        """`advertised` is the port of a proxy; a user gets a listener of its own with TLS and SASL, `secure`."""
        fetch()
        ports = free_ports(2 * nodes + 1)
        self.user, self.password = user, password
        self.secure = f"127.0.0.1:{ports[-1]}" if user else ""
        voters = ",".join(f"{n + 1}@127.0.0.1:{ports[nodes + n]}" for n in range(nodes))
        self.nodes = []
        for n in range(nodes):
            home = folder / str(n + 1)
            home.mkdir(parents=True)
            (home / "log4j2.properties").write_text(LOGGING)
            (home / "server.properties").write_text(
                PROPERTIES.format(
                    node=n + 1,
                    voters=voters,
                    port=ports[n],
                    advertised=advertised or ports[n],
                    secure_listener=f",SECURE://{self.secure}" if user else "",
                    controller=ports[nodes + n],
                    home=home,
                    replicas=min(3, nodes),
                    insync=min(2, nodes),
                )
                + (SECURE.format(home=home) if user else "")
            )
            self.nodes.append(Node(home, ports[n]))
        self.servers = ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def __enter__(self):
        try:
            for node in self.nodes:
                words = ["format", "-t", CLUSTER, "-c", str(node.home / "server.properties")]
                if self.user:
                    self.make_keys(node)
                    words += ["--add-scram", f"SCRAM-SHA-256=[name={self.user},password={self.password}]"]
                subprocess.run(node.java("kafka.tools.StorageTool", *words), check=True, capture_output=True)
                node.start()
            for node in self.nodes:
                node.wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def make_keys(self, node: Node) -> None:
        """A key of the node's own, and its certificate for clients, home/ca.pem."""
        store = ["-keystore", str(node.home / "keys.p12"), "-storetype", "PKCS12", "-storepass", "keystore-secret"]
        name = [
            "-alias",
            "node",
            "-dname",
            "CN=127.0.0.1",
            "-ext",
            "san=ip:127.0.0.1",
            "-keyalg",
            "RSA",
            "-validity",
            "2",
        ]
        subprocess.run(["keytool", "-genkeypair", *name, *store], check=True, capture_output=True)
        export = ["keytool", "-exportcert", "-rfc", "-alias", "node", "-file", str(node.home / "ca.pem"), *store]
        subprocess.run(export, check=True, capture_output=True)

    def __exit__(self, *_):
        for node in self.nodes:
            if node.process is not None and node.process.poll() is None:
                node.process.kill()
                node.process.wait()
