"""The face of programs in Python: obeys the lines that tests/it/faces/driven.rs describes."""

import ipaddress
import sys

import frs

FIGURES = ("limit", "used", "max", "remaining", "reset", "retry", "action", "list", "granted",
           "held")
FLAGS = ("banned", "shadow", "degraded", "repeated", "unknown_hold")
TEXTS = ("rate", "member", "once", "hold")
LIMIT = ("index", "policy", "used", "max", "remaining", "reset", "retry")


def plain(word):
    return bytes.fromhex(word[1:]).decode()


def text(word):
    """A text, or what Python has for the same: a number, an address."""
    text = plain(word)
    if text.isdecimal() and str(int(text)) == text:
        return int(text)
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return text


def option(word):
    """An option as its name and its value: a flag, a text, a number."""
    name, _, value = word.partition("=")
    if not value:
        return name, True
    return name, plain(value) if name in TEXTS else int(value)


def item():
    biz, key, *words = input().split()
    return text(biz), text(key), dict(map(option, words))


def figures(source, names):
    values = ((name, getattr(source, name)) for name in names)
    return [f"{name}={value}" for name, value in values if value is not None]


def say(verdict):
    if verdict.error:
        return print(f"item error={verdict.error.word}")
    words = ["item", f"limited={str(verdict.limited).lower()}", *figures(verdict, FIGURES)]
    words += [f"{name.replace('_', '-')}=true" for name in FLAGS if getattr(verdict, name)]
    if verdict.weight is not None:
        words.append(f"weight={verdict.weight:g}")
    print(*words)
    for limit in verdict.limits:
        words = figures(limit, LIMIT)
        if limit.standard_error is not None:
            words.append(f"standard-error={limit.standard_error:g}")
        if limit.history is not None:
            words.append("history=" + ",".join(map(str, limit.history)))
        print("limit", *words)


def single(client, is_query, asked):
    biz, key, options = asked
    if is_query:
        options.pop("force", None)
    try:
        verdict = (client.query if is_query else client.update)(biz, key, **options)
    except frs.ItemError as error:
        print("refused=false")
        return print(f"item error={error.word}")
    print("refused=false")
    say(verdict)


def many(client, is_query, is_atomic, once, asked):
    # A tuple where it says the same.
    items = [(biz, key, *options.values()) if options.keys() <= {"count"}
             else frs.Item(biz, key, **options) for biz, key, options in asked]
    try:
        call = client.atomic if is_atomic else client.batch
        answers = call(items, query=is_query, **once)
    except frs.TooMany as error:
        return print(f"fault={error.word}")
    print(f"refused={str(answers.refused).lower()}")
    for verdict in answers:
        say(verdict)


def main():
    client = frs.attach(sys.argv[1])
    for line in iter(sys.stdin.readline, ""):
        call, kind, count, *once = line.split()
        asked = [item() for _ in range(int(count))]
        if len(asked) == 1 and kind == "each":
            single(client, call == "query", asked[0])
        else:
            many(client, call == "query", kind == "atomic", dict(map(option, once)), asked)
        print("end", flush=True)


main()
