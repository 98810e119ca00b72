"""A client, its items, its verdicts."""

import gc
import ipaddress
import pathlib
import unittest
import weakref

import frs
from serving import Served


class Secret(int):
    def __str__(self) -> str:
        return "no digits"

    __repr__ = __str__


class Session(Served):
    def setUp(self) -> None:
        super().setUp()
        self.client = frs.attach(self.server.data)

    def test_it_counts_with_the_server(self) -> None:
        self.assertEqual(self.server.get("/update?biz=three&key=k")[0], 200)
        verdict = self.client.update("three", "k", count=2)
        self.assertTrue(verdict)
        self.assertEqual((verdict.used, verdict.max, verdict.remaining), (3, 3, 0))
        self.assertEqual(self.server.get("/update?biz=three&key=k")[0], 429)
        verdict = self.client.update("three", "k")
        self.assertFalse(verdict)
        self.assertFalse(verdict.allowed)

    def test_a_verdict_has_what_the_server_answers(self) -> None:
        for biz, key in [
            ("three", "k"), ("number", "7"), ("address", "10.0.0.1"), ("listed", "friend"),
            ("listed", "foe"), ("banned", "k"), ("shown", "k"), ("asked", "k"),
        ]:
            for _ in range(4):
                self.client.update(biz, key)
            verdict = self.client.query(biz, key, detail=True)
            _, told = self.server.get(f"/query?biz={biz}&key={key}&detail=true")
            del told["biz"], told["key"]
            limits = told.pop("limits", [])
            # Time passes between the two.
            for times in (told, *limits):
                times.pop("reset", None)
                times.pop("retry", None)
            said = {name: getattr(verdict, name) for name in told}
            self.assertEqual(said, told, (biz, key))
            for name in ("limit", "used", "max", "remaining", "action", "weight", "list", "age"):
                if name not in told:
                    self.assertIsNone(getattr(verdict, name), (biz, key, name))
            for name in ("banned", "shared", "shadow", "degraded"):
                if name not in told:
                    self.assertIs(getattr(verdict, name), False, (biz, key, name))
            own = [{name: getattr(limit, name) for name in other}
                   for limit, other in zip(verdict.limits, limits, strict=True)]
            self.assertEqual(own, limits)
            self.assertIsNone(verdict.error)

    def test_times_are_milliseconds(self) -> None:
        for _ in range(4):
            verdict = self.client.update("three", "k")
        assert verdict.reset is not None and verdict.retry is not None
        self.assertTrue(3_500_000 < verdict.retry <= verdict.reset <= 3_600_000, verdict)
        self.assertIsNone(self.client.query("plenty", "k").retry)

    def test_options(self) -> None:
        self.assertEqual(self.client.update("three", "k", 3).used, 3)
        verdict = self.client.update("three", "k", force=True)
        self.assertEqual((verdict.limited, verdict.used), (True, 4))
        self.assertEqual(self.client.update("three", "k", count=-4).used, 0)
        self.assertEqual(self.client.update("three", "k").limits, ())
        policies = [limit.policy for limit in self.client.query("number", 7, detail=True).limits]
        self.assertEqual(policies, ["sliding", "interval"])

    def test_an_item_brings_its_limit_along(self) -> None:
        client = self.client
        self.assertEqual(client.query("paced", "map").max, 16)
        self.assertEqual(client.query("paced", "a", rate="2/m").max, 2)
        self.assertEqual([bool(client.update("paced", "b", rate="1/h", burst=2)) for _ in range(3)],
                         [True, True, False])
        item = frs.Item("paced", "c", rate="1/h", burst=3)
        self.assertEqual(client.batch([item]).items[0].max, 3)

    def test_keys_are_text_numbers_and_addresses(self) -> None:
        client = self.client
        self.assertEqual(client.update("number", 7).used, 1)
        self.assertEqual(client.update(4, "7").used, 2)
        self.assertEqual(client.update("4", 2**64 - 1).used, 1)
        self.assertEqual(client.update("plenty", -5).used, 1)
        self.assertEqual(client.update("plenty", "-5").used, 2)
        self.assertEqual(client.update("plenty", 10**30).used, 1)
        self.assertEqual(client.update("plenty", "schlüssel 🔑").used, 1)
        _, told = self.server.get("/query?biz=plenty&key=schl%C3%BCssel%20%F0%9F%94%91")
        self.assertEqual(told["used"], 1)
        for text in ("10.0.0.1", "2001:db8::1"):
            self.assertEqual(client.update("address", ipaddress.ip_address(text)).used, 1)
            self.assertEqual(client.update("address", text).used, 2)
        # An int is used as its digits, even if its class displays it differently.
        for number in (5, -6, 10**40):
            self.assertEqual(client.update("plenty", Secret(number)).used, 1)
            self.assertEqual(client.update("plenty", str(number)).used, 2)
        # A zone or a network makes another key than the address alone.
        for text in ("fe80::1%eth0", "fe80::1", "fe80::1%eth1"):
            self.assertEqual(client.update("plenty", ipaddress.ip_address(text)).used, 1)
            self.assertEqual(client.update("plenty", text).used, 2)
        interface = ipaddress.ip_interface("10.0.0.1/8")
        self.assertEqual(client.update("plenty", interface).used, 1)
        self.assertEqual(client.update("plenty", "10.0.0.1/8").used, 2)

    def test_a_batch_is_answered_in_order(self) -> None:
        answers = self.client.batch(
            [("three", "k"), frs.Item("three", "k", 2), ("three", "k", 1), ("nope", "k")]
        )
        self.assertEqual([bool(verdict) for verdict in answers], [True, True, False, False])
        self.assertEqual((len(answers), answers.refused, bool(answers)), (4, False, False))
        self.assertEqual([verdict.used for verdict in answers[:3]], [1, 3, 3])
        error = answers[-1].error
        self.assertIsInstance(error, frs.UnknownBiz)
        self.assertIn('"nope"', str(error))
        self.assertEqual((answers[3].allowed, answers[3].limited, answers[3].used),
                         (False, False, None))
        self.assertTrue(self.client.batch(("plenty", key) for key in ("k",)))
        self.assertTrue(self.client.batch([("plenty", "k")], wait=False))
        self.assertEqual(self.client.batch([]).items, ())
        query = self.client.batch([("plenty", "k", 5)], query=True)
        self.assertEqual((bool(query), self.client.query("plenty", "k").used), (True, 2))

    def test_an_error_that_is_raised_keeps_no_frame(self) -> None:
        class Local:
            pass

        kept: list[weakref.ref[Local]] = []

        def ask() -> None:
            local = Local()
            kept.append(weakref.ref(local))
            for verdict in self.client.batch([("nope", "k")]):
                if verdict.error:
                    raise verdict.error

        with self.assertRaises(frs.UnknownBiz):
            ask()
        gc.collect()
        self.assertIsNone(kept[0]())

    def test_an_atomic_batch_charges_all_or_nothing(self) -> None:
        client = self.client
        self.assertTrue(client.atomic([("three", "k"), ("number", 7)]))
        answers = client.atomic([("three", "k"), ("number", 7, 5)])
        self.assertEqual((bool(answers), answers.refused), (False, True))
        self.assertEqual([verdict.used for verdict in answers], [1, 1])
        self.assertTrue(client.atomic([("three", "k")], query=True))
        self.assertEqual(client.query("three", "k").used, 1)
        self.assertTrue(client.atomic([("three", "k")], wait=False))

    def test_a_client_says_what_it_is(self) -> None:
        client = frs.attach(pathlib.Path(self.server.data))
        self.assertIn(self.server.data, repr(client))
        self.assertIn("limited limit=1 used=0 max=3", repr(client.query("three", "k", 4)))
        self.assertIn("<frs.Limit 1 interval allowed used=0 max=3",
                      repr(client.query("three", "k", detail=True).limits))
        item = frs.Item("three", 7, 2, force=True, rate="1/h", burst=3)
        self.assertEqual(repr(item),
                         'frs.Item("three", "7", count=2, force=True, rate="1/h", burst=3)')
        self.assertEqual(repr(frs.Item(2, "k", 2**70)), f'frs.Item("2", "k", count={2**70})')
        self.assertRegex(frs.__version__, r"^\d+\.\d+\.\d+$")

    def test_a_dropped_client_gives_its_place_back(self) -> None:
        self.assertEqual(len(self.server.programs()), 1)
        del self.client
        self.assertEqual(self.server.programs(), [])


if __name__ == "__main__":
    unittest.main()
