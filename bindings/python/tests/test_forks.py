"""Forks beside threads that attach and detach, and amid the first calls of a process."""

import ipaddress
import os
import subprocess
import sys
import threading
import unittest
from functools import partial

import frs
from serving import MAP, Served, expect_done, forked

COUNT = int(os.environ.get("FRS_FORKS", "60"))
# The first calls of a process and of a thread, with forks amid them: at each switch of the
# interpreter. An alarm ends a child that waits.
FIRST = '''
import ipaddress, os, signal, sys, threading
sys.setswitchinterval(1e-6)
signal.alarm(60)
import frs

def ask():
    client = frs.attach(os.environ["DATA"])
    assert client.update("plenty", "first")
    assert client.update("address", ipaddress.ip_address("10.0.0.1"), force=True) is not None
    try:
        client.update("nope", "k")
        raise SystemExit("no error")
    except frs.UnknownBiz:
        pass

thread = threading.Thread(target=ask)
children = []
thread.start()
while thread.is_alive() and len(children) < 50:
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        try:
            ask()
            os._exit(0)
        finally:
            os._exit(1)
    children.append(child)
thread.join()
sys.exit([status for child in children if (status := os.waitpid(child, 0)[1])] or 0)
'''


class Storm(Served):
    map_xml = MAP.replace(
        'max="1000000"/>',
        'max="1000000"/><limit policy="calendar" unit="day" tz="Asia/Tokyo" max="1000000"/>',
    )

    def ask(self) -> None:
        client = frs.attach(self.server.data)
        self.assertTrue(client.update("plenty", "k"))
        client.update("address", ipaddress.ip_address("10.0.0.1"), force=True)
        with self.assertRaises(frs.UnknownBiz):
            client.update("nope", "k")

    def test_children_forked_beside_threads_that_attach_are_answered(self) -> None:
        is_over = threading.Event()

        def attach_often() -> None:
            while not is_over.is_set():
                self.ask()

        def ask_in_two_generations(nth: int) -> None:
            self.ask()
            if nth % 4 == 0:
                expect_done(self, forked(self.ask))

        threads = [threading.Thread(target=attach_often) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            for nth in range(COUNT):
                expect_done(self, forked(partial(ask_in_two_generations, nth)))
        finally:
            is_over.set()
            for thread in threads:
                thread.join()
        self.assertEqual(self.server.programs(), [])

    def test_forks_amid_the_first_calls_of_a_process_leave_no_child_waiting(self) -> None:
        environment = os.environ | {"DATA": self.server.data}
        for _ in range(max(COUNT // 10, 20)):
            command = [sys.executable, "-c", FIRST]
            done = subprocess.run(command, env=environment, capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
