"""Checks each login before its password is looked at. Reads one user a line from standard input,
and writes one answer a line to standard output:

    printf 'alice\\nalice\\nbob\\n' | python3 bindings/python/examples/login.py data
"""

import sys

import frs


def check_logins(data: str) -> None:
    client = frs.attach(data)
    for line in sys.stdin:
        user = line.rstrip("\n")
        try:
            verdict = client.update("login", user)
        except frs.ItemError as error:
            # A bad line gets an answer, and the loop continues with the next line.
            print(f"{user!r}: not judged: {error.word}")
            continue
        if verdict:
            print(f"{user}: yes, {verdict.remaining} more")
        elif verdict.retry is None:
            print(f"{user}: no")
        else:
            print(f"{user}: no, try again in {verdict.retry} ms")


if __name__ == "__main__":
    try:
        check_logins(sys.argv[1] if len(sys.argv) > 1 else "data")
    except frs.Error as error:
        sys.exit(f"login: {error}")
