"""The CPU of a decision of `limits` by a moving window: in Redis and in frs, in turns.

    .ci/python bench-limits [ROUNDS] [PROGRAM]

PROGRAM is redis-server or valkey-server. Both servers answer with one process, over unix sockets.
In a turn four clients hit each key as often as its limit says, and then as often again, which must
be refused. Another number of admitted hits ends the bench, so no server is fast by failing.

With one hit in flight most of the time is the kernel's. So redis-benchmark sends the commands that
the two libraries send, 16 at a time: these figures show what the servers do themselves.
"""

import statistics
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "tests"))
import redis  # noqa: E402
from limits import RateLimitItemPerHour  # noqa: E402
from limits.storage import storage_from_string  # noqa: E402
from limits.strategies import MovingWindowRateLimiter  # noqa: E402
from served import Redis  # noqa: E402
from serving import Server  # noqa: E402

LIMIT = RateLimitItemPerHour(50)
CLIENTS = 4
# Of each client.
KEYS = 100
# Of redis-benchmark, which chooses keys by chance and hits each about twice as often as the limit
# says.
MANY_KEYS = 2000
MANY_HITS = 2 * LIMIT.amount * MANY_KEYS
MAP = """<map>
  <group name="windows" keys="100000" key-bytes="72"/>
  <biz id="1" name="adhoc" group="windows" key="string" once="8">
    <limit policy="sliding" interval="60s" max="5" per-call="true" most="200" max-period="30d"/>
  </biz>
</map>
"""


def play(uri: str, client: int, turn: int) -> tuple[int, float]:
    """Hits each key of a client as often as the limit says. Returns how many hits were admitted,
    and the client's own seconds of CPU."""
    limiter = MovingWindowRateLimiter(storage_from_string(uri))
    keys = [f"{uri[:5]}-{turn}-{client}-{key}" for key in range(KEYS)]
    begun = time.process_time()
    admitted = sum(limiter.hit(LIMIT, key) for _ in range(LIMIT.amount) for key in keys)
    return admitted, time.process_time() - begun


def server_cpu(root: int) -> float:
    """The seconds of CPU of a process and its children so far, with the kernel's work for them."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(") ")[2].split()[1])
        except OSError:
            # The process has ended.
            continue
    family = [root]
    for parent in family:
        family += [pid for pid, of in parents.items() if of == parent]
    tasks = (task for pid in family for task in Path(f"/proc/{pid}/task").glob("*/schedstat"))
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


@dataclass
class Case:
    """A way to ask, and the microseconds of a decision in each round."""

    name: str
    uri: str
    process: int
    # The case that it is compared with.
    peer: "Case | None" = None
    server: list[float] = field(default_factory=list)
    client: list[float] = field(default_factory=list)

    def turn(self, clients: ProcessPoolExecutor, number: int) -> None:
        before, spent, hits = server_cpu(self.process), 0.0, CLIENTS * KEYS * LIMIT.amount
        for expected in (hits, 0):
            asked = [clients.submit(play, self.uri, client, number) for client in range(CLIENTS)]
            found = [one.result() for one in asked]
            admitted = sum(count for count, _ in found)
            assert admitted == expected, f"{self.name}: {admitted} hits, expected {expected}"
            spent += sum(seconds for _, seconds in found)
        self.server.append((server_cpu(self.process) - before) / (2 * hits) * 1e6)
        self.client.append(spent / (2 * hits) * 1e6)

    def row(self) -> str:
        shown = f"{self.name:30} {middle(self.server)} {middle(self.client)}"
        if self.peer:
            pairs = zip(self.server, self.peer.server, strict=True)
            shown += f" {middle([own / other for own, other in pairs])}"
        return shown.rstrip()


@dataclass
class Pipelined(Case):
    """The command of a hit by redis-benchmark. It says `__rand_int__` for a number."""

    command: list[str] = field(default_factory=list)

    def turn(self, clients: ProcessPoolExecutor, number: int) -> None:
        command = [word.replace("TURN", str(number)) for word in self.command]
        asked = ["redis-benchmark", "-s", self.uri, "-c", "64", "-P", "16", "--csv",
                 "-n", str(MANY_HITS), "-r", str(MANY_KEYS)]
        before = server_cpu(self.process)
        subprocess.run([*asked, *command], check=True, capture_output=True)
        self.server.append((server_cpu(self.process) - before) / MANY_HITS * 1e6)
        # Each key has had more hits than its limit: the next one is refused.
        last = [word.replace("__rand_int__", f"{number:012}") for word in command]
        client: Any = redis.Redis(unix_socket_path=self.uri)
        reply = client.execute_command(*last)
        assert reply is None or reply[1] == 1, f"{self.name}: {reply}"


def middle(figures: list[float]) -> str:
    if not figures:
        return " " * 21
    spread = f"({min(figures):.2f}-{max(figures):.2f})"
    return f"{statistics.median(figures):6.2f} {spread:14}"


def cases(program: str, theirs: Redis, ours: Server) -> list[Case]:
    assert ours.process is not None
    socket = f"{ours.dir}/resp.sock"
    storage: Any = storage_from_string(theirs.uri)
    script = storage.storage.script_load(storage.lua_acquire_moving_window.script)
    key, amount, seconds = LIMIT.key_for("TURN-__rand_int__"), LIMIT.amount, LIMIT.get_expiry()
    in_redis = ["EVALSHA", script, "1", key, str(time.time()), str(amount), str(seconds), "1"]
    in_frs = ["FRS.UPDATE", "adhoc", key, "COUNT", "1", "RATE", f"{amount}/{seconds}s",
              "ONCE", "id-__rand_int__"]
    one = Case(f"limits in {program}", theirs.uri, theirs.process.pid)
    many = Pipelined("... 16 in flight", theirs.path, theirs.process.pid, command=in_redis)
    of_frs = ours.process.pid
    return [
        one,
        Case("frs-limits, frs+unix://", f"frs+unix://{socket}", of_frs, one),
        Case("frs-limits, frs+data://", f"frs+data://{ours.data}", of_frs, one),
        many,
        Pipelined("frs-limits, 16 in flight", socket, of_frs, many, command=in_frs),
    ]


def main(rounds: int, program: str) -> None:
    ours, theirs = Server(MAP, '<resp listen="unix:resp.sock"/>'), Redis(program)
    srv = ours.dir / "conf/srv.xml"
    srv.write_text(srv.read_text().replace("<workers>2<", "<workers>1<"))
    try:
        ours.start()
        rows = cases(Path(program).name, theirs, ours)
        with ProcessPoolExecutor(CLIENTS) as clients:
            for number in range(rounds):
                for case in rows:
                    case.turn(clients, number)
    finally:
        theirs.close()
        ours.close()
    print(f"{'CPU us of a decision':30} {'server':21} {'client':21} of Redis' server")
    for case in rows:
        print(case.row())


if __name__ == "__main__":
    main(
        int(sys.argv[1]) if len(sys.argv) > 1 else 9,
        sys.argv[2] if len(sys.argv) > 2 else "redis-server",
    )
