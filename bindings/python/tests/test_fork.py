"""A client that was attached before a fork, used after it."""

import contextlib
import http.client
import math
import os
import signal
import subprocess
import sys
import threading
import time
import unittest
from collections.abc import Iterator

import frs
from serving import MAP, OverSocket, Served, Waiting, expect_done, forked, wait_until

MAX = 500
APP = '''
import os

import frs

client = frs.attach(os.environ["DATA"])
assert client.update("three", "made before the fork")


def app(environ, start_response):
    verdict = client.update("plenty", "k")
    start_response("200 OK" if verdict else "429 Too Many Requests",
                   [("Worker", str(os.getpid())), ("Content-Length", "0")])
    return []
'''


class Forks(Served):
    map_xml = MAP.replace("1000000", str(MAX))

    def test_a_child_attaches_anew(self) -> None:
        client = frs.attach(self.server.data)
        parent = os.getpid()
        self.assertEqual(client.update("three", "k").used, 1)

        def charge() -> None:
            self.assertEqual(self.server.programs(), [parent])
            self.assertEqual(client.update("three", "k").used, 2)
            self.assertEqual(self.server.programs(), sorted([parent, os.getpid()]))

        expect_done(self, forked(charge))
        self.assertEqual(client.update("three", "k").used, 3)
        self.assertEqual(self.server.programs(), [parent])

    def test_children_forked_amid_batches_of_threads_count_exactly(self) -> None:
        client = frs.attach(self.server.data)
        is_over = threading.Event()
        charged = [0] * 3
        # A batch that may wait runs without the interpreter's lock, so a fork can come amid it.
        items = [frs.Item("plenty", "k", force=True)] * 500

        def charge(at: int) -> None:
            while not is_over.is_set():
                charged[at] += len(client.batch(items))

        threads = [threading.Thread(target=charge, args=(at,)) for at in range(len(charged))]
        for thread in threads:
            thread.start()
        children = [forked(lambda: client.batch(items)) for _ in range(20)]
        for child in children:
            expect_done(self, child)
        is_over.set()
        for thread in threads:
            thread.join()
        expected = sum(charged) + len(children) * len(items)
        self.assertEqual(client.query("plenty", "k").used, expected)

    def test_gunicorn_with_preload_admits_exactly_what_is_allowed(self) -> None:
        (self.server.dir / "shop.py").write_text(APP)
        address = str(self.server.dir / "shop.sock")
        environment = os.environ | {"DATA": self.server.data}
        command = [sys.executable, "-m", "gunicorn", "--preload", "--workers", "4", "--threads",
                   "2", "--bind", f"unix:{address}", "--worker-tmp-dir", "/dev/shm",
                   "--no-control-socket", "shop:app"]
        with open(self.server.dir / "gunicorn.log", "wb") as log:
            shop = subprocess.Popen(command, cwd=self.server.dir, env=environment, stderr=log)
        self.addCleanup(shop.wait)
        self.addCleanup(shop.kill)

        def ask(path: str, target: str) -> tuple[int, str]:
            connection = OverSocket(path)
            connection.request("GET", target)
            answer = connection.getresponse()
            answer.read()
            connection.close()
            return answer.status, answer.getheader("Worker", "frs")

        def serves() -> bool | None:
            self.assertIsNone(shop.poll(), (self.server.dir / "gunicorn.log").read_text())
            return os.path.exists(address) or None

        wait_until("gunicorn serves", serves)
        begin = threading.Barrier(8)
        answers: list[tuple[int, str]] = []

        frs_address = str(self.server.dir / "frs.sock")

        def order(at: int) -> None:
            begin.wait()
            for _ in range(100):
                if at < 6:
                    answers.append(ask(address, "/"))
                else:
                    answers.append(ask(frs_address, "/update?biz=plenty&key=k"))

        threads = [threading.Thread(target=order, args=(at,)) for at in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        statuses = [status for status, _ in answers]
        self.assertEqual((len(answers), set(statuses)), (800, {200, 429}))
        self.assertEqual(statuses.count(200), MAX)
        # All workers take part in the end. Each has a place of its own, and so has the parent.
        workers = {worker for _, worker in answers} - {"frs"}

        def all_workers() -> bool | None:
            workers.add(ask(address, "/")[1])
            return len(workers) == 4 or None

        wait_until("four workers have answered", all_workers)
        attached = {str(program) for program in self.server.programs()}
        self.assertEqual(attached, workers | {str(shop.pid)})
        shop.terminate()
        self.assertEqual(shop.wait(20), 0)
        self.assertEqual(self.server.programs(), [])


class ForksAmidCalls(Waiting):
    """Children that are forked while threads wait for leases."""

    map_xml = Waiting.map_xml.replace("500ms", "1s")

    def setUp(self) -> None:
        super().setUp()
        self.client = frs.attach(self.server.data)
        self.assertTrue(self.client.update("plenty", "k"))

    @contextlib.contextmanager
    def waiting(self, count: int) -> Iterator[None]:
        """Runs the body while this many threads wait."""
        is_over = threading.Event()
        since = [math.inf] * count

        def wait(at: int) -> None:
            while not is_over.is_set():
                since[at] = time.monotonic()
                with contextlib.suppress(frs.Busy):
                    self.client.update("shared", str(at))

        def all_wait() -> bool | None:
            # A call that does not wait takes microseconds.
            return all(time.monotonic() - begin > 0.05 for begin in since) or None

        threads = [threading.Thread(target=wait, args=(at,)) for at in range(count)]
        try:
            for thread in threads:
                thread.start()
            wait_until("all of them wait", all_wait)
            yield
        finally:
            is_over.set()
            for thread in threads:
                if thread.ident:
                    thread.join()

    def test_a_child_waits_for_no_call_of_its_parent(self) -> None:
        with self.waiting(8):
            self.assertEqual(self.server.programs(), [os.getpid()], "one place for all threads")
            children = [forked(self.charge) for _ in range(2)]
            for child in children:
                expect_done(self, child)
        self.assertEqual(self.client.query("plenty", "k").used, 3)

    def charge(self) -> None:
        self.assertTrue(self.client.update("plenty", "k"))
        self.assertEqual(self.server.programs().count(os.getpid()), 1)


if __name__ == "__main__":
    unittest.main()
