"""Threads and tasks of one program, beside clients of the server."""

import asyncio
import threading
import unittest

import frs
from serving import MAP, Served

MAX = 1000


class Threads(Served):
    map_xml = MAP.replace("1000000", str(MAX))

    def test_eight_threads_and_clients_of_the_server_admit_exactly_what_is_allowed(self) -> None:
        client = frs.attach(self.server.data)
        admitted = [0] * 10
        begin = threading.Barrier(len(admitted))

        def charge(at: int) -> None:
            begin.wait()
            for _ in range(200):
                admitted[at] += bool(client.update("plenty", "k"))

        def ask(at: int) -> None:
            begin.wait()
            for _ in range(100):
                admitted[at] += self.server.get("/update?biz=plenty&key=k")[0] == 200

        threads = [threading.Thread(target=charge if at < 8 else ask, args=(at,))
                   for at in range(len(admitted))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sum(admitted), MAX)
        self.assertEqual(client.query("plenty", "k").used, MAX)
        # Calls of threads take turns in any case.
        self.assertEqual(len(self.server.programs()), 1)

    def test_tasks_count_exactly_as_well(self) -> None:
        client = frs.attach(self.server.data)

        async def charge_all() -> int:
            tasks = [asyncio.to_thread(client.update, "plenty", "k", 1) for _ in range(MAX + 50)]
            at_once = [bool(client.try_update("plenty", "k")) for _ in range(50)]
            return sum(at_once) + sum(map(bool, await asyncio.gather(*tasks)))

        self.assertEqual(asyncio.run(charge_all()), MAX)
        self.assertEqual(client.query("plenty", "k").used, MAX)


if __name__ == "__main__":
    unittest.main()
