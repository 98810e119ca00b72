"""The extra cost of an Update from Python over one from Rust: one after another, in turns.

    .ci/python bench [ROUNDS]

It builds both halves and the server, and runs this. A round is a turn of each over the same keys,
in the same order, on the same files; the figures are medians over the rounds.
"""

import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import cycle, islice
from pathlib import Path

import frs

sys.path.insert(0, str(Path(__file__).parent / "tests"))
from serving import Server  # noqa: E402

MAP = """<map>
  <group name="default" files="4" key-nodes="16384" chain="8" node-size="64"/>
  <biz id="1" name="plenty" key="string">
    <limit policy="interval" interval="24h" max="1000000000"/>
  </biz>
</map>
"""
KEYS = 100_000
TURN = 200_000


def turn(updates: int, keys: list[str], work: Callable[[str, str], object]) -> float:
    """The nanoseconds of a call, on average over this many calls, with the keys in order."""
    order = list(islice(cycle(keys), updates))
    begun = time.perf_counter_ns()
    for key in order:
        work("plenty", key)
    return (time.perf_counter_ns() - begun) / updates


def nothing(_biz: str, _key: str) -> None:
    """Measures the cost of the loop, with a call of a Python function."""


def shown(name: str, figures: list[float]) -> str:
    return (f"{name:34} {statistics.median(figures):5.0f} ns"
            f" ({min(figures):.0f}-{max(figures):.0f})")


def main(rounds: int) -> None:
    numbers = list(range(KEYS))
    random.Random(1).shuffle(numbers)
    # Texts are made in the order of use, as in the Rust half: a program has just made its key.
    keys = [f"user-{number}" for number in numbers]
    server = Server(MAP)
    try:
        server.start()
        file = server.dir / "keys"
        file.write_text("\n".join(keys))
        rust = subprocess.Popen([os.environ["FRS_UPDATES"], server.data, str(file)],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert rust.stdin is not None and rust.stdout is not None

        def rust_turn(updates: int) -> float:
            assert rust.stdin is not None and rust.stdout is not None
            print(updates, file=rust.stdin, flush=True)
            return float(rust.stdout.readline())

        client = frs.attach(server.data)
        # Creates each key before the first round.
        rust_turn(KEYS)
        turn(KEYS, keys, client.update)
        figures: dict[str, list[float]] = {
            "Rust: Client::update": [], "Python: client.update": [],
            "Python above Rust": [], "Python: a call of an empty function": [],
        }
        for _ in range(rounds):
            own = rust_turn(TURN), turn(TURN, keys, client.update)
            call = turn(TURN, keys, nothing)
            for name, figure in zip(figures, (*own, own[1] - own[0], call), strict=True):
                figures[name].append(figure)
        for name, found in figures.items():
            print(shown(name, found))
        rust.stdin.close()
        rust.wait()
    finally:
        server.close()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
