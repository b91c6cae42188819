"""botocore's own description of Converse: what it sends for a call, and which calls it refuses."""

from __future__ import annotations

import base64
import json
from functools import cache
from typing import Any

from botocore.serialize import create_serializer  # type: ignore[import-untyped]  # it has no types
from botocore.session import Session  # type: ignore[import-untyped]  # it has no types
from botocore.validate import ParamValidator  # type: ignore[import-untyped]  # it has no types


@cache
def operation(name: str) -> Any:
    """The model of an operation of Bedrock Runtime."""
    return Session().get_service_model("bedrock-runtime").operation_model(name)


def from_json(value: Any, shape: Any) -> Any:
    """The parameter of the SDK for a value in JSON: bytes in place of base64."""
    match shape.type_name:
        case "blob":
            return base64.b64decode(value, validate=True)
        case "structure" if not getattr(shape, "is_document_type", False):
            return {name: from_json(inner, shape.members[name]) for name, inner in value.items()}
        case "list":
            return [from_json(inner, shape.member) for inner in value]
        case "map":
            return {name: from_json(inner, shape.value) for name, inner in value.items()}
        case _:
            return value


def sent(model: str, body: dict[str, Any], *, stream: bool = False) -> tuple[str, Any]:
    """The path and the body that botocore sends for the call whose body is `body`, which it must accept."""
    called = operation("ConverseStream" if stream else "Converse")
    unknown = body.keys() - called.input_shape.members.keys()
    assert not unknown, f"no parameters of Converse: {unknown}"
    params = {"modelId": model, **from_json(body, called.input_shape)}
    report = ParamValidator().validate(params, called.input_shape)
    assert not report.has_errors(), report.generate_report()
    request = create_serializer("rest-json").serialize_to_request(params, called)
    return request["url_path"], json.loads(request["body"])
