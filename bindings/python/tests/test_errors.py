"""Each error has its class, its word and a text."""

import concurrent.futures
import os
import pathlib
import pickle
import socket
import tempfile
import threading
import time
import unittest
from collections.abc import Callable

import frs
from serving import MAP, Served, expect_done, forked


class Errors(Served):
    more = '<data max-programs="4"/>'

    def setUp(self) -> None:
        super().setUp()
        self.client = frs.attach(self.server.data)

    def expect(self, kind: type[frs.Error], word: str, text: str, *asked: object,
               **options: object) -> None:
        """An Update and a Query raise this, and a batch has it for the item."""
        for call in (self.client.update, self.client.try_update, self.client.query):
            with self.assertRaises(kind) as raised:
                call(*asked, **options)  # type: ignore[arg-type]
            error = raised.exception
            self.assertIs(type(error), kind)
            self.assertEqual((error.word, error.text), (word, str(error)))
            self.assertIn(text, str(error))
        item = frs.Item(*asked, **options)  # type: ignore[arg-type]
        answers = self.client.batch([item, ("plenty", "beside")])
        self.assertEqual(repr(answers[0].error), repr(error))
        self.assertTrue(answers[1])

    def test_an_unknown_business(self) -> None:
        self.expect(frs.UnknownBiz, "unknown-biz", 'no business "nope"', "nope", "k")
        self.expect(frs.UnknownBiz, "unknown-biz", 'no business "4711"', 4711, "k")
        self.expect(frs.UnknownBiz, "unknown-biz", "no business", 2**40, "k")
        self.expect(frs.UnknownBiz, "unknown-biz", "no business", "half \ud800", "k")

    def test_a_bad_key(self) -> None:
        self.expect(frs.BadKey, "bad-key", 'the business "three", found ""', "three", "")
        self.expect(frs.BadKey, "bad-key", 'found "x"', "number", "x")
        self.expect(frs.BadKey, "bad-key", 'kk"…', "three", "k" * 1_000_000)
        self.expect(frs.BadKey, "bad-key", "found", "three", "half \udc80")
        self.expect(frs.BadKey, "bad-key", r'found "\0"', "three", "\0")

    def test_a_bad_count(self) -> None:
        for count in (2**31, -(2**31) - 1, 10**30, -(10**30)):
            self.expect(frs.BadCount, "bad-count", "expected a count of -2147483648 to 2147483647",
                        "three", "k", count)

    def test_a_bad_rate(self) -> None:
        for rate in ({"rate": "30/w"}, {"burst": 3}, {"rate": "1/h", "burst": 0},
                     {"rate": "1/h", "burst": -1}, {"rate": "1/h", "burst": 2**70}, {"rate": ""}):
            self.expect(frs.BadRate, "bad-rate", "30/m", "paced", "k", **rate)
        self.expect(frs.BadRate, "bad-rate", 'found rate "1/h" and burst 2 of the business "three"',
                    "three", "k", rate="1/h", burst=2)

    def test_no_room(self) -> None:
        self.assertTrue(self.client.update("small", "first"))
        with self.assertRaises(frs.Full) as raised:
            self.client.update("small", "second")
        self.assertEqual(raised.exception.word, "full")
        self.assertIn("no room for another key", str(raised.exception))

    def test_too_many_items(self) -> None:
        for call, most in ((self.client.batch, 1024), (self.client.atomic, 64)):
            self.assertEqual(len(call([("plenty", "k")] * most)), most)
            with self.assertRaises(frs.TooMany) as raised:
                call([("plenty", "k")] * (most + 1))
            self.assertEqual(raised.exception.word, "too-many-items")
            self.assertIn(f"{most + 1} items: srv.xml allows {most}", str(raised.exception))

    def test_a_wrong_type(self) -> None:
        for key in (None, b"k", 1.5, True, ["k"]):
            with self.assertRaisesRegex(TypeError, "expected str, int or an ipaddress, found"):
                self.client.update("three", key)  # type: ignore[arg-type]
        with self.assertRaises(TypeError):
            self.client.update("three", "k", 1.5)  # type: ignore[arg-type]
        for items in ([1], [("three",)], ["ab"], [("three", "k", 1, 2)]):
            with self.assertRaisesRegex(TypeError, r"expected .*tuple \(biz, key\)"):
                self.client.batch(items)  # type: ignore[arg-type]
        self.assertEqual(self.client.query("three", "k").used, 0)

    def test_all_places_are_taken(self) -> None:
        clients = []
        with self.assertRaises(frs.NoPlace) as raised:
            while True:
                clients.append(frs.attach(self.server.data))
        self.assertEqual((raised.exception.word, len(clients)), ("no-place", 3))
        self.assertIn("raise max-programs", str(raised.exception))

    def test_no_server(self) -> None:
        with tempfile.TemporaryDirectory() as nothing:
            with self.assertRaises(frs.NoServer) as raised:
                frs.attach(nothing)
        self.assertEqual(raised.exception.word, "no-server")
        self.assertIn("no server runs on the data directory", str(raised.exception))
        self.assertIn("runtime.mmap", str(raised.exception))

    def test_a_file_of_another_kind(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "runtime.mmap").write_bytes(b"another kind" * 65536)
            with self.assertRaises(frs.AttachError) as raised:
                frs.attach(folder)
        self.assertEqual((type(raised.exception), raised.exception.word),
                         (frs.AttachFailed, "attach-failed"))

    @unittest.skipIf(os.geteuid() != 0, "not root: it cannot become another user")
    def test_another_user(self) -> None:
        # Only the files refuse it.
        self.server.dir.chmod(0o755)

        def attach() -> None:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            with self.assertRaises(frs.Denied) as raised:
                frs.attach(self.server.data)
            self.assertEqual(raised.exception.word, "denied")

        expect_done(self, forked(attach))

    def test_more_forks_than_a_client_works_in(self) -> None:
        def go_on(left: int) -> None:
            if left:
                return expect_done(self, forked(lambda: go_on(left - 1)))
            with self.assertRaises(frs.TooManyForks) as raised:
                self.client.update("three", "k")
            self.assertEqual(raised.exception.word, "too-many-forks")
            self.assertIn("attach a new one", str(raised.exception))
            self.assertTrue(frs.attach(self.server.data).update("three", "k"))

        go_on(64)

    def test_errors_are_one_family(self) -> None:
        words = {}
        for name in frs.__all__:
            kind = getattr(frs, name)
            if isinstance(kind, type) and issubclass(kind, frs.Error):
                words[name] = kind.word
                error = pickle.loads(pickle.dumps(kind("why")))
                self.assertEqual((type(error), str(error)), (kind, "why"))
        leaves = [kind for kind in words if not getattr(frs, kind).__subclasses__()]
        self.assertEqual(len({words[kind] for kind in leaves}), len(leaves))
        # Nothing that looks whether there is an error takes it for none.
        with concurrent.futures.ThreadPoolExecutor() as pool:
            with self.assertRaises(frs.UnknownBiz):
                pool.submit(self.client.update, "nope", "k").result()


class Waiting(Served):
    """The cluster does not answer: its only node accepts connections and is silent."""

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
        self.client = frs.attach(self.server.data)

    def test_a_call_that_does_not_wait(self) -> None:
        with self.assertRaises(frs.WouldWait) as raised:
            self.client.try_update("shared", "k")
        self.assertEqual(raised.exception.word, "would-wait")
        answers = self.client.batch([("shared", "k"), ("plenty", "k")], wait=False)
        self.assertIs(type(answers[0].error), frs.WouldWait)
        self.assertTrue(answers[1])
        with self.assertRaises(frs.WouldWait):
            self.client.atomic([("shared", "k"), ("plenty", "k")], wait=False)
        self.assertEqual(self.client.query("plenty", "k").used, 1)

    def test_a_verdict_says_that_its_figures_are_those_of_several_machines(self) -> None:
        verdict = self.client.update("admitted", "k")
        _, told = self.server.get("/query?biz=admitted&key=k")
        self.assertEqual((bool(verdict), verdict.shared, told["shared"]), (True, True, True))
        self.assertEqual(verdict.age, told.get("age"))

    def test_a_call_that_waits_keeps_no_other_waiting(self) -> None:
        def wait() -> None:
            with self.assertRaises(frs.Busy):
                self.client.update("shared", "c")

        thread = threading.Thread(target=wait)
        thread.start()
        time.sleep(0.1)
        begun = time.monotonic()
        self.assertTrue(self.client.try_update("plenty", "c"))
        took = time.monotonic() - begun
        thread.join()
        self.assertLess(took, 0.2)

    def test_a_call_that_waits_lets_other_threads_go_on(self) -> None:
        calls = [
            lambda: self.client.update("shared", "a"),
            lambda: self.client.batch([("shared", "b")])[0].error,
        ]
        for call in calls:
            begun, waited = time.monotonic(), threading.Event()
            raised: list[object] = []

            def wait(call: Callable[[], object] = call) -> None:
                try:
                    raised.append(call())
                except frs.Error as error:
                    raised.append(error)
                waited.set()

            thread = threading.Thread(target=wait)
            thread.start()
            # This one, and a thread that asks for the same attachment and so waits for it, too.
            other = threading.Thread(target=self.client.update, args=("plenty", "k"))
            other.start()
            turns = 0
            while not waited.is_set():
                turns += 1
                time.sleep(0.001)
            thread.join()
            other.join()
            self.assertGreaterEqual(time.monotonic() - begun, 0.4)
            self.assertGreater(turns, 50)
            [error] = raised
            self.assertIsInstance(error, frs.Busy)
            self.assertEqual(getattr(error, "word"), "busy")


if __name__ == "__main__":
    unittest.main()
