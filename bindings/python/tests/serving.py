"""A real server for the tests: the program in FRS, with a directory and a socket of its own."""

import http.client
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

# Long enough for anything that works, even on a busy machine.
BOUND_S = 20.0

MAP = """<map>
  <group name="default" files="2" key-nodes="64" chain="8" node-size="128"/>
  <group name="tiny" files="1" key-nodes="1" chain="1" node-size="128" on-full="refuse"/>
  <biz id="1" name="plenty" key="string">
    <limit policy="interval" interval="1h" max="1000000"/>
  </biz>
  <biz id="2" name="three" key="string"><limit policy="interval" interval="1h" max="3"/></biz>
  <biz id="3" name="address" key="ip"><limit policy="interval" interval="1h" max="9"/></biz>
  <biz id="4" name="number" key="integer">
    <limit policy="sliding" interval="1m" max="5"/><limit policy="interval" interval="1h" max="9"/>
  </biz>
  <biz id="5" name="paced" key="string">
    <limit policy="gcra" rate="30/m" burst="16" per-call="true" max-period="1d"/>
  </biz>
  <biz id="6" name="small" group="tiny" key="string">
    <limit policy="interval" interval="1h" max="9"/>
  </biz>
  <biz id="7" name="listed" key="string">
    <limit policy="interval" interval="1h" max="1"/><allow key="friend"/><deny key="foe"/>
  </biz>
  <biz id="8" name="banned" key="string">
    <limit policy="interval" interval="1h" max="1" ban="10m"/>
  </biz>
  <biz id="9" name="shown" key="string" mode="shadow">
    <limit policy="interval" interval="1h" max="1"/>
  </biz>
  <biz id="10" name="asked" key="string">
    <limit policy="interval" interval="1h" max="1" on-exceed="captcha"/>
  </biz>
  <group name="work" keys="1000"/>
  <biz id="11" name="planned" group="work" key="string">
    <limit policy="interval" interval="1h" max="3" per-call="true" most="100"/>
  </biz>
  <biz id="12" name="tokens" group="work" key="string" once="8" holds="2" hold-ttl="10m">
    <limit policy="interval" interval="1h" max="10"/>
  </biz>
  <biz id="13" name="places" group="work" key="string" hold-ttl="10m">
    <limit policy="concurrent" max="2"/>
  </biz>
</map>
"""


def wait_until(what: str, look: Callable[[], T | None]) -> T:
    """Calls `look` until it finds something."""
    end = time.monotonic() + BOUND_S
    while True:
        answer = look()
        if answer is not None:
            return answer
        if time.monotonic() > end:
            raise AssertionError(f"waited too long until {what}")
        time.sleep(0.005)


class OverSocket(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("test", timeout=BOUND_S)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(BOUND_S)
        self.sock.connect(self.path)


class Server:
    """A server with a directory of its own."""

    def __init__(self, map_xml: str = MAP, more: str = "") -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.dir = Path(self.folder.name)
        (self.dir / "conf").mkdir()
        # With a long lock-timeout no record is busy, even on a slow machine.
        srv = '<srv><workers>2</workers><listen>unix:frs.sock</listen><http lock-timeout="10s"/>'
        (self.dir / "conf/srv.xml").write_text(srv + more + "</srv>")
        (self.dir / "conf/map.xml").write_text(map_xml)
        secret = self.dir / "conf/cluster.secret"
        secret.touch(0o600)
        secret.write_text("c0ffee00" * 8)
        self.data = str(self.dir / "data")
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with open(self.dir / "log", "ab") as log:
            self.process = subprocess.Popen(
                [os.environ["FRS"]], cwd=self.dir, stderr=log, process_group=0
            )
        wait_until("the server serves", self.serves)

    def serves(self) -> bool | None:
        assert self.process is not None
        assert self.process.poll() is None, (self.dir / "log").read_text()
        try:
            return self.get("/health")[0] == 200 or None
        except OSError:
            return None

    def get(self, target: str) -> tuple[int, Any]:
        """The status and, if the answer has a single item, that item."""
        connection = OverSocket(str(self.dir / "frs.sock"))
        try:
            connection.request("GET", target, headers={"Accept": "application/json"})
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
        is_item = answer.getheader("Content-Type", "").startswith("application/json")
        return answer.status, json.loads(body)["items"][0] if is_item else body

    def frs(self, *arguments: str) -> str:
        """Runs a command of frs, and returns what it prints."""
        done = subprocess.run(
            [os.environ["FRS"], *arguments], cwd=self.dir, capture_output=True, text=True
        )
        assert done.returncode == 0, done
        return done.stdout

    def programs(self) -> list[int]:
        """The ids of attached programs."""
        lines = self.frs("status").splitlines()
        own = [line for line in lines if line.startswith("program") and not line.endswith("dead")]
        return sorted(int(line.split("process ")[1].split(",")[0]) for line in own)

    def stop(self) -> None:
        self.frs("stop")
        assert self.process is not None
        self.process.wait(BOUND_S)

    def kill(self) -> None:
        """Kills every process of the server at once."""
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(BOUND_S)

    def close(self) -> None:
        if self.process is not None:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self.process.wait(BOUND_S)
        self.folder.cleanup()


class Served(unittest.TestCase):
    """Tests beside a server."""

    more = ""
    map_xml = MAP

    def setUp(self) -> None:
        self.server = Server(self.map_xml, self.more)
        self.addCleanup(self.server.close)
        self.server.start()


class Waiting(Served):
    """Tests beside a server whose cluster does not answer: its only node accepts connections, but
    stays silent."""

    map_xml = MAP.replace("128", "192", 1).replace("</map>", """
  <biz id="20" name="shared" key="string" share="exact" wait="500ms" on-miss="busy">
    <limit policy="total" max="9"/></biz>
  <biz id="21" name="admitted" key="string" share="cluster" hosts="2" wait="10ms" on-miss="admit">
    <limit policy="interval" interval="1h" max="9"/></biz></map>""")

    def setUp(self) -> None:
        self.silent = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(self.silent.close)
        node = f"127.0.0.1:{self.silent.getsockname()[1]}"
        self.more = f'''<cluster name="test" secret-file="conf/cluster.secret" timeout="10s"
            learn="60s"><node>{node}</node></cluster>'''
        super().setUp()


def forked(work: Callable[[], object]) -> int:
    """Runs work in a forked child, which an alarm ends if it takes too long. Returns the child's
    id."""
    child = os.fork()
    if child:
        return child
    signal.alarm(int(BOUND_S))
    status = 1
    try:
        work()
        status = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(status)


def expect_done(test: unittest.TestCase, child: int) -> None:
    """Waits for a child, which must succeed."""
    test.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
