"""What schemathesis has to know of frs: three of its checks, less what a schema cannot say.

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
# The errors of an item that is written as the schema says, and still is none that can be served.
NOT_KNOWN_TO_THE_SCHEMA = {"unknown-biz", "bad-key", "bad-rate", "full", "busy"}
# The admin plane: what a key of the business's type is; which settings go together; that the body's
# business is the path's.
NOT_KNOWN_TO_THE_SCHEMA_OF_ADMIN = {("/node", 400), ("/biz/{biz}", 422), ("/biz/{biz}", 400)}
# Businesses that the server has, and that it keeps.
KNOWN = {"login", "sms", "seckill", "api", "1001"}
# Two that take a rate, one for texts and one for integers.
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
    """Whether the text of a parameter is one of its schema."""
    kind = resolved(schema).get("type")
    if kind == "integer":
        return re.fullmatch("-?[0-9]+", text) is not None and fits(schema, int(text))
    if kind == "boolean":
        return text in ("true", "false")
    return fits(schema, text)


def fault(case, request):
    """What of a request is not as the document says, judged by the bytes that were sent."""
    path = case.operation.path
    item = DOCUMENT["paths"][path]
    operation = item.get(request.method.lower())
    # These two ignore the parameters.
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


@schemathesis.hook
def before_call(ctx, case, kwargs):
    """A business that exists, since another one says nothing about the rest of the request; and the
    one that takes a rate, since a rate is an error of all others. One item of many is enough. Of the
    businesses that other calls name, only one is removed."""
    if case.operation.path in ("/query", "/update"):
        body = case.body if isinstance(case.body, dict) else {}
        items = body.get("items") if isinstance(body.get("items"), list) else []
        for item in [case.query or {}, *items[:1]]:
            if not isinstance(item, dict) or not isinstance(item.get("biz"), (str, int)):
                continue
            if item["biz"] not in KNOWN or "rate" in item or "burst" in item:
                name, number = TAKE_A_RATE[isinstance(item.get("key"), int)]
                item["biz"] = name if isinstance(item["biz"], str) else number
    if case.method.upper() == "DELETE" and case.operation.path == "/biz/{biz}":
        if case.path_parameters.get("biz") in KNOWN:
            case.path_parameters["biz"] = "tried"


@schemathesis.check
def no_fault_of_the_server(ctx, response, case):
    """Like not_a_server_error, except for a refusal with the status that the request names."""
    from schemathesis.checks import not_a_server_error

    limited = any(answer.get("limited") for answer in answers(response))
    if limited and response.status_code in asked_status(case):
        return
    return not_a_server_error(ctx, response, case)


@schemathesis.check
def what_is_wrong_is_refused(ctx, response, case):
    """In place of negative_data_rejection, which knows no items, and takes a use that a limit
    refuses for a request that is refused."""
    said = answers(response)
    is_refused = response.status_code >= 400 and not said
    if is_refused or any("error" in answer for answer in said):
        return
    wrong = fault(case, response.request)
    assert wrong is None, f"{wrong} is not as the document says: {response.request.url}"


@schemathesis.check
def what_is_right_is_served(ctx, response, case):
    """Like positive_data_acceptance, except for what a schema cannot say."""
    from schemathesis.specs.openapi.checks import positive_data_acceptance

    if any(answer.get("error") in NOT_KNOWN_TO_THE_SCHEMA for answer in answers(response)):
        return
    if any(answer.get("limited") for answer in answers(response)):
        return
    if (case.operation.path, response.status_code) in NOT_KNOWN_TO_THE_SCHEMA_OF_ADMIN:
        return
    return positive_data_acceptance(ctx, response, case)
