"""The URL and the authorization header of a request to an OpenAI-compatible service, from its row and the environment.

The URLs of the services table have variables for environment variables, and users pass theirs with a path, a query or a
slash at the end. The environment is a parameter: nothing is read here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote

from ...errors import UnsupportedLLMError
from ...values.credentials import Secret, protect_headers, read_api_key, read_variable
from .services import ServiceSpec


def service_url(service: ServiceSpec, base_url: str | None, model: str, environ: Mapping[str, str]) -> str:
    """Return the URL of chat completions of `model`.

    `base_url`, or else a variable of `url_env`, replaces the URL of the row. A part of the path that it ends in already
    is not repeated; a query in it is preserved.

    Raises:
        UnsupportedLLMError: An environment variable that is a part of the URL is not set.
    """
    base = base_url or read_variable(service.url_env, environ) or _fill(service, service.base_url, environ)
    url, _, query = base.strip().partition("?")
    url = re.sub(r"/responses/*\Z", "", url)  # the endpoint of the other protocol
    path, _, row_query = service.path.partition("?")
    path = path.replace("{model}", quote(model, safe=""))
    query = query or _fill(service, row_query, environ)
    return _join(url.rstrip("/"), path) + (f"?{query}" if query else "")


def read_auth_header(
    service: ServiceSpec, api_key: Secret | None, environ: Mapping[str, str]
) -> tuple[str, Secret | None]:
    """Return the name of the authorization header and its key or token: `api_key`, or that of the environment."""
    if key := api_key or read_api_key(service.key_env, environ):
        return service.key_header, key
    token = read_api_key(service.bearer_env, environ)
    return ("authorization" if token else service.key_header), token


def read_headers(service: ServiceSpec, environ: Mapping[str, str]) -> dict[str, str | Secret]:
    """Return the additional headers whose values are in the environment."""
    return protect_headers(
        {header: value for header, name in service.header_env.items() if (value := environ.get(name))}
    )


_VARIABLE = re.compile(r"\{([A-Z_|]+)(?:=([^}]*))?\}")
_CHAT = "/chat/completions"


def _fill(service: ServiceSpec, text: str, environ: Mapping[str, str]) -> str:
    """Return `text` with its variables replaced by their values in the environment or by their defaults."""

    def value(variable: re.Match[str]) -> str:
        names, default = variable.groups()
        found = read_variable(names.split("|"), environ) or default
        if not found:
            wanted = names.replace("|", " or ")
            raise UnsupportedLLMError(
                f"no base URL for {service.name}: set {wanted}, or pass base_url=. Nothing was sent."
            )
        return found.rstrip("/")

    return _VARIABLE.sub(value, text)


def _join(url: str, path: str) -> str:
    """Return `url` with `path` appended, without the part of `path` that `url` ends in already.

    That part is the whole path, or whole segments from the start of what precedes `/chat/completions`.
    """
    root = path.removesuffix(_CHAT)
    heads = [path, *(root[:end] for end in range(len(root), 0, -1) if root[end : end + 1] in ("", "/"))]
    head = next((head for head in heads if url.endswith(head)), "")
    return url + path.removeprefix(head)
