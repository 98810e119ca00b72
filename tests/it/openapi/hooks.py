"""Hooks for schemathesis: three of its checks, without the rules that a schema cannot express.

A request to the data plane holds items, and a wrong item does not fail the request.
"""
import json
import pathlib
import re
from urllib.parse import parse_qsl, unquote, urlsplit

import jsonschema_rs
import schemathesis
import yaml

DOCUMENT = yaml.safe_load((pathlib.Path(__file__).parents[3] / "docs/openapi.yaml").read_text())
# Errors of an item that matches the schema, but cannot be served.
NOT_KNOWN_TO_THE_SCHEMA = {
    "unknown-biz",
    "bad-key",
    # Of a partial item, or of a hold.
    "bad-count",
    "bad-member",
    "bad-rate",
    "bad-once",
    "bad-hold",
    "full",
    "full-holds",
    "busy",
}
# Messages of the admin plane about a call that matches the schema, but is wrong: its key does not
# fit the business's type, or settings contradict each other.
NOT_KNOWN_TO_THE_SCHEMA_OF_ADMIN = {
    "/top": ["expected by=refused beside it", "expected the parameter biz"],
    "/changes/{id}/undo": ["only a change of a biz is undone", "cannot be undone"],
    "/node": [
        "a key of the business's type",
        "is no key of the business",
        "this limit counts for each key",
        "the biz has no limit of this index",
        "the biz has no record of this kind",
    ],
    "/biz/{biz}": [
        "expected it with ",
        "expected grow=true beside it",
        "found limit=",
        "expected the name of a <group>",
        "expected one that no <",
        "expected more than that of line ",
        "expected characters that XML 1.0 allows",
        "expected a duration from ",
        "expected a rate from ",
        "expected the IANA name of a time zone",
        "with at most 3 decimals",
        "windows to pay back",
        "expected them in one limit of a biz",
        "expected one of them: a limit with on-exceed refuses nothing",
        "expected per-call=",
        "expected precision=",
        "expected on-exceed=",
        "expected another biz for it",
        # A bound that depends on another setting.
        " for limit ",
        " of the limit itself ",
        "expected limits of policy=",
        " beside <register>",
        " with <register>",
        "with policy=\"concurrent\"",
        " with a concurrent limit",
        " without holds",
        " without once",
        "expected it in at most ",
        "found scope=",
        "node-size",
        "expected a <cluster> in srv.xml",
        "<limit> without ",
        "the <biz> of the body has another id or name than the path",
    ],
}
# The settings of a limit that only some policies have, with the beginnings of these policies'
# names.
OF_POLICIES = {
    "max": ("interval", "calendar", "sliding", "total", "distinct"),
    "interval": ("interval", "sliding"),
    "unit": ("calendar", "count", "distinct"),
    "tz": ("calendar", "count", "distinct"),
    "at": ("calendar", "count", "distinct"),
    "rate": ("token", "gcra"),
    "burst": ("token", "gcra"),
    "per-call": ("gcra",),
    "most": (),
    "max-period": (),
    "precision": ("distinct",),
    "debt": ("interval", "calendar"),
    "ban": ("interval", "calendar", "sliding", "token", "gcra", "total", "distinct"),
    "on-exceed": (),
}
# Businesses that exist on the server, and stay.
KNOWN = {"login", "sms", "seckill", "api", "1001"}
# Two businesses that take a rate, one with string keys and one with integer keys.
TAKE_A_RATE = [("calls", 1006), ("figures", 1009)]


def answers(response):
    """The answers to the items of a request."""
    try:
        return response.json()["items"]
    except Exception:
        return []


def asked_status(case):
    """The status that the request names for a refusal."""
    deny = str((case.query or {}).get("deny", ""))
    _, _, of_path = str((case.path_parameters or {}).get("biz", "")).partition(":")
    return [int(text) for text in (deny, of_path) if text.isdigit()]


def resolved(part):
    while "$ref" in part:
        reference, part = part["$ref"], DOCUMENT
        for name in reference.removeprefix("#/").split("/"):
            part = part[name]
    return part


def fits(schema, value):
    schema = dict(schema, components=DOCUMENT["components"])
    return jsonschema_rs.Draft202012Validator(schema).is_valid(value)


def parameter_fits(schema, text):
    """Whether the text of a parameter fits its schema."""
    kind = resolved(schema).get("type")
    if kind == "integer":
        return re.fullmatch("-?[0-9]+", text) is not None and fits(schema, int(text))
    if kind == "boolean":
        return text in ("true", "false")
    return fits(schema, text)


def fault(case, request):
    """The part of a request that violates the document, judged by the bytes sent."""
    path = case.operation.path
    item = DOCUMENT["paths"][path]
    operation = item.get(request.method.lower())
    # These two paths ignore parameters.
    if operation is None or path == "/health" or path.startswith("/authz/"):
        return None
    url = urlsplit(request.url)
    parameters = [resolved(part) for part in item.get("parameters", [])]
    parameters += [resolved(part) for part in operation.get("parameters", [])]
    of_query = {part["name"]: part for part in parameters if part["in"] == "query"}
    seen = parse_qsl(url.query, keep_blank_values=True)
    for name, text in seen:
        if name not in of_query or not parameter_fits(of_query[name]["schema"], text):
            return f"the parameter {name}"
    names = [name for name, _ in seen]
    required = [name for name, part in of_query.items() if part.get("required")]
    if len(set(names)) < len(names) or not set(required) <= set(names):
        return "a parameter that is missing or repeated"
    for part in parameters:
        segment = unquote(url.path.split("/")[2]) if part["in"] == "path" else None
        if segment is not None and not parameter_fits(part["schema"], segment):
            return "the path"
    if "requestBody" not in operation:
        return None
    if request.headers.get("Content-Type") != "application/json":
        return None
    body = resolved(operation["requestBody"])["content"]["application/json"]["schema"]
    try:
        is_right = fits(body, json.loads(request.body))
    except (TypeError, ValueError):
        is_right = False
    return None if is_right else "the body"


def is_excused(path, response):
    """Whether a schema cannot express what each line of the message reports. Any other line shows a
    hole in the document, or a bug of the server."""
    words = NOT_KNOWN_TO_THE_SCHEMA_OF_ADMIN.get(path)
    if words is None or response.status_code not in (400, 422):
        return False
    lines = response.json()["error"]["message"].splitlines()
    return all(any(word in line for word in words) for line in lines)


def go_together(biz):
    """Leaves out settings that contradict each other, such as those of one policy with another.
    Otherwise hardly any generated business would be accepted."""
    if biz.get("registers"):
        for name in biz.keys() - {"id", "name", "group", "registers"}:
            del biz[name]
        biz["key"] = "string"
    if isinstance(biz.get("group"), str):
        biz["group"] = "default"
    for name in ("share", "hosts", "wait", "on-miss", "on-down"):
        biz.pop(name, None)
    if biz.get("key") != "ip":
        biz.pop("ipv6-prefix", None)
    for name in ("once-for", "hold-ttl", "on-lapse"):
        biz.pop(name, None)
    limits = biz.get("limits") if isinstance(biz.get("limits"), list) else []
    for limit in limits:
        policy = limit.get("policy") if isinstance(limit, dict) else None
        if not isinstance(policy, str):
            continue
        for name, policies in OF_POLICIES.items():
            if not policy.startswith(policies or "none"):
                limit.pop(name, None)
            elif name in ("max", "rate", "interval", "unit"):
                sound = {"max": 5, "rate": "10/s", "interval": "60s", "unit": "day"}
                limit.setdefault(name, sound[name])


@schemathesis.hook
def before_call(ctx, case, kwargs):
    """Replaces the business by an existing one, because an unknown business hides the rest of the
    request. The id in a head stands alone. A rate goes to a business that takes one. One item of
    many is enough. Only one of the businesses that other calls name is removed. Two of three
    businesses that are put have only settings that fit together."""
    if case.operation.path in ("/query", "/update"):
        body = case.body if isinstance(case.body, dict) else {}
        items = body.get("items") if isinstance(body.get("items"), list) else []
        for item in [case.query or {}, *items[:1]]:
            if not isinstance(item, dict) or not isinstance(item.get("biz"), (str, int)):
                continue
            if item["biz"] not in KNOWN or "rate" in item or "burst" in item:
                name, number = TAKE_A_RATE[isinstance(item.get("key"), int)]
                item["biz"] = name if isinstance(item["biz"], str) else number
        # The id of the head is that of one item without an id, or of an atomic request without one.
        ids = [part.get("once") for part in [case.query or {}, body, *items] if isinstance(part, dict)]
        if any(ids) or (len(items) > 1 and body.get("atomic") is not True):
            for name in [name for name in case.headers or {} if name.lower() == "idempotency-key"]:
                del case.headers[name]
    if case.method.upper() == "PUT" and case.operation.path == "/biz/{biz}":
        body = case.body if isinstance(case.body, dict) else {}
        biz = body.get("biz") if isinstance(body.get("biz"), dict) else {}
        if isinstance(biz.get("id"), int) and biz["id"] % 3:
            go_together(biz)
            case.path_parameters["biz"] = str(biz["id"])
    if case.method.upper() == "DELETE" and case.operation.path == "/biz/{biz}":
        if case.path_parameters.get("biz") in KNOWN:
            case.path_parameters["biz"] = "tried"


@schemathesis.check
def no_fault_of_the_server(ctx, response, case):
    """Like not_a_server_error, except for a refusal with the status that the request asks for, and
    for the wait of an address that has sent many wrong tokens in the checks of access."""
    from schemathesis.checks import not_a_server_error

    if response.status_code == 503 and "too many wrong tokens" in response.text:
        return

    limited = any(answer.get("limited") for answer in answers(response))
    if limited and response.status_code in asked_status(case):
        return
    return not_a_server_error(ctx, response, case)


@schemathesis.check
def what_is_wrong_is_refused(ctx, response, case):
    """Replaces negative_data_rejection, which knows no items, and takes a refused use for a
    rejected request."""
    said = answers(response)
    is_refused = response.status_code >= 400 and not said
    if is_refused or any("error" in answer for answer in said):
        return
    wrong = fault(case, response.request)
    assert wrong is None, f"{wrong} is not as the document says: {response.request.url}"


@schemathesis.check
def what_is_right_is_served(ctx, response, case):
    """Like positive_data_acceptance, except for rules that a schema cannot express."""
    from schemathesis.specs.openapi.checks import positive_data_acceptance

    if any(answer.get("error") in NOT_KNOWN_TO_THE_SCHEMA for answer in answers(response)):
        return
    if any(answer.get("limited") for answer in answers(response)):
        return
    if is_excused(case.operation.path, response):
        return
    return positive_data_acceptance(ctx, response, case)
