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
            ("listed", "foe"), ("banned", "k"), ("shown", "k"), ("asked", "k"), ("tokens", "k"),
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
            said = {name: getattr(verdict, name.replace("-", "_")) for name in told}
            self.assertEqual(said, told, (biz, key))
            for name in ("limit", "used", "max", "remaining", "action", "weight", "list", "age",
                         "granted", "held"):
                if name not in told:
                    self.assertIsNone(getattr(verdict, name), (biz, key, name))
            for name in ("banned", "shared", "shadow", "degraded", "repeated", "unknown_hold"):
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

    def test_an_item_brings_its_window_or_its_maximum(self) -> None:
        client = self.client
        self.assertEqual(client.update("planned", "a", rate="2/90s").max, 2)
        verdict = client.update("planned", "a", max=5)
        self.assertEqual((verdict.max, verdict.used), (5, 2))
        self.assertEqual(client.update("planned", "a").max, 3)
        item = frs.Item("planned", "a", max=9)
        self.assertEqual(client.batch([item])[0].max, 9)

    def test_as_many_uses_as_there_are(self) -> None:
        client = self.client
        self.assertIsNone(client.update("three", "k").granted)
        self.assertEqual(client.query("three", "k", 7, partial=True).granted, 2)
        verdict = client.update("three", "k", 7, partial=True)
        self.assertEqual((bool(verdict), verdict.granted, verdict.used), (True, 2, 3))
        verdict = client.update("three", "k", 7, partial=True)
        self.assertEqual((bool(verdict), verdict.granted, verdict.used), (False, 0, 3))

    def test_an_id_is_charged_once(self) -> None:
        client = self.client
        for _ in range(2):
            verdict = client.update("tokens", "once", 2, once="b7c1")
            self.assertEqual((bool(verdict), verdict.used), (True, 2))
        self.assertTrue(verdict.repeated)
        # The server remembers it as well.
        _, told = self.server.get("/update?biz=tokens&key=once&count=2&once=b7c1")
        self.assertEqual((told["used"], told["repeated"]), (2, True))
        self.assertEqual(client.update("tokens", "once", 2, once="b7c2").used, 4)
        self.assertEqual(client.try_update("tokens", "once", 2, once="b7c2").used, 4)
        for is_again in (False, True):
            answers = client.atomic([("tokens", "once"), ("tokens", "other")], once="order-1")
            self.assertTrue(answers)
            self.assertEqual([(one.used, one.repeated) for one in answers],
                             [(5, is_again), (1, is_again)])

    def test_a_place_is_held_until_it_is_let_go(self) -> None:
        client = self.client
        self.assertEqual(client.update("places", "k", hold="a").held, 1)
        self.assertEqual(client.update("places", "k", hold="b", ttl=60_000).held, 2)
        verdict = client.update("places", "k", hold="c")
        self.assertEqual((bool(verdict), verdict.held), (False, 2))
        assert verdict.retry is not None and verdict.retry <= 60_000
        # A hold that asks for no more than it has is renewed.
        self.assertTrue(client.update("places", "k", hold="a"))
        self.assertEqual(client.update("places", "k", 0, hold="a").held, 1)
        self.assertTrue(client.update("places", "k", hold="c"))

    def test_a_reservation_is_settled(self) -> None:
        client = self.client
        self.assertEqual(client.query("tokens", "k").held, 0)
        verdict = client.update("tokens", "k", 8, hold="req-1")
        self.assertEqual((verdict.used, verdict.held, verdict.repeated), (8, 8, False))
        self.assertTrue(client.update("tokens", "k", 8, hold="req-1").repeated)
        self.assertFalse(client.update("tokens", "k", 3, hold="req-2"))
        verdict = client.update("tokens", "k", 5, hold="req-1", settle=True)
        self.assertEqual((verdict.used, verdict.held, verdict.unknown_hold), (5, 0, False))
        self.assertTrue(client.update("tokens", "k", 5, hold="req-1", settle=True).repeated)
        verdict = client.update("tokens", "k", 2, hold="req-3", settle=True)
        self.assertEqual((verdict.used, verdict.unknown_hold), (7, True))
        item = frs.Item("tokens", "k", 1, hold="req-4", ttl=1000)
        self.assertEqual(client.batch([item])[0].held, 1)
        self.assertIn(" held=1", repr(client.query("tokens", "k")))

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
        item = frs.Item(2, "k", rate="5/90s", member="m", once="o", hold="h", ttl=2**70)
        self.assertEqual(repr(item), 'frs.Item("2", "k", rate="5/90s", '
                                     f'ttl={2**70}, member="m", once="o", hold="h")')
        item = frs.Item(2, "k", max=-1, partial=True, settle=True)
        self.assertEqual(repr(item), 'frs.Item("2", "k", max=-1, partial=True, settle=True)')
        self.assertRegex(frs.__version__, r"^\d+\.\d+\.\d+$")

    def test_a_dropped_client_gives_its_place_back(self) -> None:
        self.assertEqual(len(self.server.programs()), 1)
        del self.client
        self.assertEqual(self.server.programs(), [])


if __name__ == "__main__":
    unittest.main()
