"""The common part of the Python drivers.

A driver obeys the test: each line of its input is an order in JSON, each line of its output is the
answer, {"ok": VALUE} or {"error": [CLASS, TEXT]}, as the client returned it.
"""

import json
import select
import sys


def value(found):
    """A reply as a value of JSON."""
    if isinstance(found, bytes):
        return found.decode()
    if isinstance(found, dict):
        return {value(name): value(one) for name, one in found.items()}
    if isinstance(found, (list, tuple)):
        return [value(one) for one in found]
    return found


def told(found):
    """The answer with a result or an exception of the client."""
    if isinstance(found, Exception):
        return {"error": [type(found).__name__, str(found)]}
    return {"ok": value(found)}


def say(answer):
    print(json.dumps(answer), flush=True)


def keep(client, args, stdin):
    """Sends the same command until the next order comes. A command that a lost connection leaves
    unanswered is repeated, and only answers are counted."""
    answered = 0
    while not select.select([stdin], [], [], 0)[0]:
        try:
            client.ask(args)
        except client.lost:
            continue
        answered += 1
        if answered == 1:
            say({"ok": "keeps asking"})
    stdin.readline()
    return answered


def obey(client):
    """Serves the test. The client has `connect(port, protocol, password)`, which closes the former
    connection, `ask(args)`, `many(asks, transaction)`, which returns exceptions among the replies,
    `own()`, and `lost`, the exceptions of a lost connection."""
    say({"ok": client.version})
    # Unbuffered, so that `select` sees all waiting input.
    stdin = open(0, "rb", buffering=0)
    for line in iter(stdin.readline, b""):
        order = json.loads(line)
        do = order.pop("do")
        try:
            if do == "connect":
                client.connect(**order)
                say({"ok": "connected"})
            elif do == "ask":
                say(told(client.ask(order["args"])))
            elif do == "many":
                replies = client.many(order["asks"], order["transaction"])
                say({"ok": [told(reply) for reply in replies]})
            elif do == "own":
                say(told(client.own()))
            elif do == "keep":
                say({"ok": keep(client, order["args"], stdin)})
            else:
                sys.exit(f"found the order {do}, expected one of this file")
        except Exception as error:
            say(told(error))


def missing(error):
    """Reports that the client is not installed, and ends."""
    say({"missing": str(error)})
    sys.exit()
