"""What the programs of Python share: hits from the test, decisions to it, one line each.

A hit is the time of the clock and a key. The answer is whether it is limited (1 or 0), and a count.
"""

import sys
import time


def run(decide):
    print("ready", flush=True)
    for line in sys.stdin:
        seconds, key = line.split()
        # Windows of the clock begin at the same hit over every server.
        time.time = lambda: float(seconds)
        limited, count = decide(key)
        print(int(limited), count, flush=True)


def skip(error):
    print("missing:", error, flush=True)
    sys.exit()
