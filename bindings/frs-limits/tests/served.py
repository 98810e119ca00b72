"""A real server for the tests, with the shipped map.xml and listeners of RESP, and a real Redis."""

import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "bindings/python/tests"))

import frs_limits  # noqa: E402, F401
import limits.aio.strategies  # noqa: E402
import limits.strategies  # noqa: E402
from limits.storage import storage_from_string  # noqa: E402
from serving import Server, wait_until  # noqa: E402

# The strategies by name. Any: `limits` types them as their abstract class.
STRATEGIES: dict[str, Any] = dict(limits.strategies.STRATEGIES)
ASYNC_STRATEGIES: dict[str, Any] = dict(limits.aio.strategies.STRATEGIES)

TOKEN = "a-token-of-24-characters"
SHIPPED = (ROOT / "conf/map.xml").read_text()


def reserved() -> socket.socket:
    """A port that stays reserved for a server as long as the socket is open."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    held.bind(("127.0.0.1", 0))
    return held


def port_of(held: socket.socket) -> int:
    return int(held.getsockname()[1])


class Limited(unittest.TestCase):
    """Tests beside a server that speaks RESP on a port, on a port with a token, and on a socket."""

    map_xml = SHIPPED

    def setUp(self) -> None:
        ports = [reserved() for _ in range(3)]
        for held in ports:
            self.addCleanup(held.close)
        self.port, guarded, admin = (port_of(held) for held in ports)
        more = f"""<resp listen="127.0.0.1:{self.port}"/><resp listen="unix:resp.sock"/>
            <resp listen="127.0.0.1:{guarded}" token-file="conf/resp.token"/>
            <admin listen="127.0.0.1:{admin}" token-file="conf/admin.token"/>"""
        self.server = Server(self.map_xml, more)
        self.addCleanup(self.server.close)
        for name in ("resp", "admin"):
            token = self.server.dir / f"conf/{name}.token"
            token.touch(0o600)
            token.write_text(TOKEN)
        self.uri = f"frs://127.0.0.1:{self.port}"
        self.guarded = f"127.0.0.1:{guarded}"
        self.admin = f"http://127.0.0.1:{admin}"
        self.server.start()
        # On a busy machine an answer may take longer than in service.
        self.patient = {"timeout": 20}

    def storage(self, uri: str | None = None, **options: Any) -> Any:
        return storage_from_string(uri or self.uri, **(self.patient | options))


class Failing:
    """A server that answers each FRS command with an error."""

    HELLO = b"*4\r\n$6\r\nserver\r\n$3\r\nfrs\r\n$7\r\nversion\r\n$5\r\n0.1.0\r\n"

    def __init__(self, error: str) -> None:
        self.error = f"-{error}\r\n".encode()
        self.held = reserved()
        self.held.listen()
        self.uri = f"frs://127.0.0.1:{port_of(self.held)}"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        while True:
            try:
                client, _ = self.held.accept()
            except OSError:
                return
            threading.Thread(target=self.answer, args=(client,), daemon=True).start()

    def answer(self, client: socket.socket) -> None:
        with client:
            if b"clients" in self.error:
                client.sendall(self.error)
                return
            while asked := client.recv(65536):
                for name in re.findall(rb"\*\d+\r\n\$\d+\r\n([A-Z.]+)", asked):
                    other = self.error if name.startswith(b"FRS.") else b"+OK\r\n"
                    client.sendall(self.HELLO if name == b"HELLO" else other)

    def close(self) -> None:
        self.held.shutdown(socket.SHUT_RDWR)
        self.held.close()


HAS_REDIS = shutil.which("redis-server") is not None


class Redis:
    """A real redis-server without a disk."""

    def __init__(self, program: str = "redis-server") -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.path = f"{self.folder.name}/redis.sock"
        self.process = subprocess.Popen(
            [program, "--port", "0", "--unixsocket", self.path, "--save", "", "--dir",
             self.folder.name],
            stdout=subprocess.DEVNULL,
        )
        self.uri = f"redis+unix://{self.path}"
        wait_until("Redis serves", lambda: storage_from_string(self.uri).check() or None)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()
