"""Each error has its class, its word and a text."""

import concurrent.futures
import ipaddress
import itertools
import os
import pathlib
import pickle
import sys
import tempfile
import threading
import time
import unittest
from collections.abc import Callable

import frs
from serving import Served, Waiting, expect_done, forked


class Like:
    """An object that stands for an int."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __index__(self) -> int:
        return self.number


class Shown:
    """An object that is no address, but prints like one."""

    def __str__(self) -> str:
        return "10.0.0.1"


class Packed:
    """An object that is no address, but has the packed form of one."""

    packed = bytes(4)


class Errors(Served):
    more = '<data max-programs="4"/>'

    def setUp(self) -> None:
        super().setUp()
        self.client = frs.attach(self.server.data)

    def expect(self, kind: type[frs.Error], word: str, text: str, *asked: object,
               **options: object) -> None:
        """An Update and a Query raise this error, and a batch has it for the item."""
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
        self.expect(frs.UnknownBiz, "unknown-biz", "no business \"half \ufffd", "half \ud800", "k")
        self.expect(frs.UnknownBiz, "unknown-biz", 'no business "-1"', -1, "k")
        self.expect(frs.UnknownBiz, "unknown-biz", "business an int of 16610 bits", 10**5000, "k")

    def test_a_bad_key(self) -> None:
        self.expect(frs.BadKey, "bad-key", 'the business "three", found ""', "three", "")
        self.expect(frs.BadKey, "bad-key", 'found "x"', "number", "x")
        self.expect(frs.BadKey, "bad-key", 'kk"…', "three", "k" * 1_000_000)
        self.expect(frs.BadKey, "bad-key", "found \"half \ufffd", "three", "half \udc80")
        self.expect(frs.BadKey, "bad-key", r'found "\0"', "three", "\0")
        self.expect(frs.BadKey, "bad-key", 'found "-7"', "number", -7)

    def test_a_key_of_more_digits_than_a_key_has(self) -> None:
        most = self.client.update("three", 10**1024 - 1)
        self.assertEqual((most.used, self.client.query("three", "9" * 1024).used), (1, 1))
        expected = "expected a key of 1 to 1024 bytes"
        self.expect(frs.BadKey, "bad-key", expected, "three", 10**1024)
        self.expect(frs.BadKey, "bad-key", "found an int of 3405 bits", "three", 2**3404)
        self.expect(frs.BadKey, "bad-key", "found an int of 16610 bits", "three", -(10**5000))
        # The interpreter may be set to make even fewer digits.
        digits = sys.get_int_max_str_digits()
        self.addCleanup(sys.set_int_max_str_digits, digits)
        sys.set_int_max_str_digits(640)
        self.expect(frs.BadKey, "bad-key", "found an int of 2326 bits", "three", 10**700)

    def test_an_address_that_says_more(self) -> None:
        for text in ("fe80::1%eth0", "10.0.0.1/8", "2001:db8::1/32"):
            kind = ipaddress.ip_interface if "/" in text else ipaddress.ip_address
            self.expect(frs.BadKey, "bad-key", f'found "{text}"', "address", kind(text))
    def test_a_bad_count(self) -> None:
        expected = ('expected a count of -2147483648 to 2147483647 that the limits of the business '
                    '"three" take, found ')
        for count in (2**31, -(2**31) - 1, 2**63, 2**70, -(10**30)):
            self.expect(frs.BadCount, "bad-count", f"{expected}{count}", "three", "k", count)
            self.expect(frs.BadCount, "bad-count", f"{expected}{count}", "three", "k", Like(count))
        for count in (10**5000, -(10**5000)):
            self.expect(frs.BadCount, "bad-count", f"{expected}an int of 16610 bits", "three", "k",
                        count)
        error = self.client.batch([("three", "k", 2**70)])[0].error
        self.assertIn(f"found {2**70}", str(error))

    def test_a_bad_rate(self) -> None:
        cases: dict[str, dict[str, object]] = {
            'found rate "30/w" of': {"rate": "30/w"},
            "found burst 3 of": {"burst": 3},
            'found rate "1/h" and burst 0 of': {"rate": "1/h", "burst": 0},
            'found rate "1/h" and burst -1 of': {"rate": "1/h", "burst": -1},
            f'found rate "1/h" and burst {2**70} of': {"rate": "1/h", "burst": 2**70},
            'and burst an int of 16610 bits of': {"rate": "1/h", "burst": 10**5000},
            'found rate "" of': {"rate": ""},
            f'found rate "{2**70}/s" of': {"rate": f"{2**70}/s"},
            'found rate "1000000000001/s"': {"rate": "1000000000001/s"},
            'and burst 4611686018427387905 of': {"rate": "1000000/ms", "burst": 2**62 + 1},
            'found rate "30/m\ufffd': {"rate": "30/m\ud800"},
            'found rate "30/m" and max 5 of': {"rate": "30/m", "max": 5},
            "found max -1 of": {"max": -1},
            f"found max {2**70} of": {"max": 2**70},
        }
        for found, rate in cases.items():
            self.expect(frs.BadRate, "bad-rate", found, "paced", "k", **rate)
        self.expect(frs.BadRate, "bad-rate", 'a rate within its bounds, such as "30/m"', "paced",
                    "k", rate="30/w")
        self.expect(frs.BadRate, "bad-rate", "a burst of at least 1", "paced", "k", rate="30/w")
        self.expect(frs.BadRate, "bad-rate", 'found rate "1/h" and burst 2 of the business "three"',
                    "three", "k", rate="1/h", burst=2)
        self.assertTrue(self.client.update("paced", "k", rate="1000000/ms", burst=2**62))

    def test_a_count_that_may_not_be_partial(self) -> None:
        expected = "expected of a partial item a count of 1 to 2147483647"
        for count in (0, -1, 2**31):
            self.expect(frs.BadCount, "bad-count", expected, "three", "k", count, partial=True)
        self.expect(frs.BadCount, "bad-count", expected, "tokens", "k", partial=True, hold="a")
        self.expect(frs.BadCount, "bad-count", expected, "places", "k", partial=True, hold="a")
        error = self.client.atomic([frs.Item("three", "k", partial=True)])[0].error
        self.assertIs(type(error), frs.BadCount)

    def test_a_bad_id(self) -> None:
        expected = "expected an id of 1 to 64 bytes"
        for id in ("", "i" * 65, "half \ud800"):
            with self.assertRaises(frs.BadOnce) as raised:
                self.client.update("tokens", "k", once=id)
            self.assertEqual(raised.exception.word, "bad-once")
            self.assertIn(expected, str(raised.exception))
            error = self.client.atomic([("tokens", "k")], once=id)[0].error
            self.assertIs(type(error), frs.BadOnce)
            self.assertIn("found the id of the batch", str(error))
        with self.assertRaisesRegex(frs.BadOnce, 'found "b7c1" of the business "three"'):
            self.client.update("three", "k", once="b7c1")
        answers = self.client.atomic([frs.Item("tokens", "k", once="b7c1")])
        self.assertIs(type(answers[0].error), frs.BadOnce)
        self.assertEqual(self.client.query("tokens", "k").used, 0)

    def test_a_bad_hold(self) -> None:
        options: list[dict[str, object]] = [
            {"hold": ""}, {"hold": "h" * 65}, {"hold": "half \ud800"}, {"ttl": 1000},
            {"settle": True}, {"hold": "h", "ttl": 600_001}, {"hold": "h", "ttl": 2**70},
            {"hold": "h", "ttl": -1},
        ]
        for option in options:
            self.expect(frs.BadHold, "bad-hold", "expected a hold of 1 to 64 bytes", "tokens", "k",
                        **option)
        self.expect(frs.BadHold, "bad-hold", 'found hold "h" and ttl 5 of the business "three"',
                    "three", "k", hold="h", ttl=5)
        self.expect(frs.BadHold, "bad-hold", 'found hold "h" and settle of the business "places"',
                    "places", "k", hold="h", settle=True)
        with self.assertRaisesRegex(frs.BadHold, 'found no hold of the business "places"'):
            self.client.update("places", "k")
        self.assertTrue(self.client.query("places", "k"))

    def test_no_room_for_a_hold(self) -> None:
        for id in ("a", "b"):
            self.assertTrue(self.client.update("tokens", "k", hold=id))
        self.expect(frs.FullHolds, "full-holds", "has no room for another hold", "tokens", "k",
                    hold="c")

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

    def test_an_iterator_without_an_end(self) -> None:
        for call in (self.client.batch, self.client.atomic):
            with self.assertRaises(frs.TooMany) as raised:
                call(itertools.repeat(("plenty", "endless")))
            self.assertIn("more than 65536 items", str(raised.exception))
        self.assertEqual(self.client.query("plenty", "endless").used, 0)

    def test_a_wrong_type(self) -> None:
        network = ipaddress.ip_network("10.0.0.0/8")
        for key in (None, b"k", 1.5, True, ["k"], network, Shown(), Packed()):
            with self.assertRaisesRegex(TypeError, "expected str, int or an ipaddress, found"):
                self.client.update("three", key)  # type: ignore[arg-type]
            with self.assertRaisesRegex(TypeError, "expected str, int or an ipaddress, found"):
                self.client.update(key, "k")  # type: ignore[arg-type]
        with self.assertRaises(TypeError):
            self.client.update("three", "k", 1.5)  # type: ignore[arg-type]
        for rate in (30, 2**70, b"30/m"):
            with self.assertRaisesRegex(TypeError, 'expected str such as "30/m", found'):
                self.client.update("paced", "k", rate=rate)  # type: ignore[arg-type]
        for name in ("once", "hold", "member"):
            with self.assertRaisesRegex(TypeError, "expected str, found"):
                self.client.update("tokens", "k", **{name: b"id"})  # type: ignore[arg-type]
        with self.assertRaises(TypeError):
            self.client.update("tokens", "k", hold="h", ttl=1.5)  # type: ignore[arg-type]
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
        # Only the modes of the files refuse the other user.
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
        # Code that checks for an error must not take it for none.
        with concurrent.futures.ThreadPoolExecutor() as pool:
            with self.assertRaises(frs.UnknownBiz):
                pool.submit(self.client.update, "nope", "k").result()


class Waits(Waiting):
    def setUp(self) -> None:
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
            # This call waits, and so does a thread that needs the same attachment.
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
