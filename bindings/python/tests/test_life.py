"""A client that outlives servers, and files that are made anew."""

import os
import shutil
import signal
import unittest

import frs
from serving import Served, wait_until


class Life(Served):
    def setUp(self) -> None:
        super().setUp()
        self.client = frs.attach(self.server.data)

    def charge(self) -> int | None:
        return self.client.update("plenty", "k").used

    def test_the_server_is_stopped_and_started_and_killed(self) -> None:
        self.assertEqual(self.charge(), 1)
        self.server.stop()
        self.assertEqual(self.charge(), 2)
        self.server.start()
        self.assertEqual(self.charge(), 3)
        self.server.kill()
        self.assertEqual(self.charge(), 4)
        self.server.start()
        self.assertEqual(self.server.get("/update?biz=plenty&key=k")[1]["used"], 5)
        self.assertEqual((self.charge(), self.server.programs()), (6, [os.getpid()]))

    def test_the_server_is_upgraded_and_reloaded(self) -> None:
        assert self.server.process is not None
        old = self.server.process
        self.assertEqual(self.charge(), 1)
        old.send_signal(signal.SIGUSR2)
        used = 1

        def has_ended() -> bool | None:
            nonlocal used
            used += 1
            self.assertEqual(self.charge(), used)
            return old.poll() is not None or None

        wait_until("the older master has ended", has_ended)
        map_xml = self.server.dir / "conf/map.xml"
        map_xml.write_text(map_xml.read_text().replace('"three"', '"four"'))
        self.server.frs("reload")
        self.assertEqual(self.charge(), used + 1)
        self.assertTrue(self.client.update("four", "k"))
        with self.assertRaises(frs.UnknownBiz):
            self.client.update("three", "k")
        self.assertEqual(self.server.get("/query?biz=plenty&key=k")[1]["used"], used + 1)
        self.server.frs("stop")

    def test_the_data_folder_is_gone(self) -> None:
        self.assertEqual(self.charge(), 1)
        assert self.server.process is not None
        shutil.rmtree(self.server.data)
        # The server gives up its files and ends.
        self.assertEqual(self.server.process.wait(20), 1)
        for _ in range(3):
            with self.assertRaises(frs.NoServer):
                self.charge()
        self.server.start()
        self.assertEqual(self.charge(), 1)
        self.assertEqual(self.server.get("/update?biz=plenty&key=k")[1]["used"], 2)
        self.assertEqual(self.charge(), 3)


if __name__ == "__main__":
    unittest.main()
