"""Where the requests to a service of the table go, and what proves who is asking.

Rows of `compatible` have holes for environment variables in their addresses, and users paste theirs with a path, a
query or a slash at the end. The environment is handed in as a plain mapping: nothing is read here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from urllib.parse import quote

from ..errors import UnsupportedLLMError
from .chat_completions.services import ServiceSpec


def address(service: ServiceSpec, base_url: str | None, model: str, environ: Mapping[str, str]) -> str:
    """The URL that requests for `model` go to. `base_url`, or a variable of `url_env`, takes the place of the row's.

    What an address given ends in already is not put behind it once more; a query that it has is kept. Raises
    `UnsupportedLLMError` where a variable that the address is made of is not set.
    """
    given = base_url or _first(service.url_env, environ) or _filled(service, service.base_url, environ)
    url, _, query = given.strip().partition("?")
    path, _, own_query = service.path.partition("?")
    path = path.replace("{model}", quote(model, safe=""))
    query = query or _filled(service, own_query, environ)
    return _joined(url.rstrip("/"), path) + (f"?{query}" if query else "")


def proof(service: ServiceSpec, api_key: str | None, environ: Mapping[str, str]) -> tuple[str, str | None]:
    """The header that proves who is asking, and the key or token for it: `api_key`, or what a variable holds."""
    if key := api_key or _first(service.key_env, environ):
        return service.key_header, key
    token = _first(service.bearer_env, environ)
    return ("authorization" if token else service.key_header), token


_HOLE = re.compile(r"\{([A-Z_|]+)(?:=([^}]*))?\}")
_CHAT = "/chat/completions"


def _filled(service: ServiceSpec, text: str, environ: Mapping[str, str]) -> str:
    def value(hole: re.Match[str]) -> str:
        names, default = hole.groups()
        found = _first(names.split("|"), environ) or default
        if not found:
            wanted = names.replace("|", " or ")
            raise UnsupportedLLMError(f"where is {service.name}? Set {wanted}, or pass base_url=. Nothing was sent.")
        return found.rstrip("/")

    return _HOLE.sub(value, text)


def _joined(url: str, path: str) -> str:
    """`path` behind `url`, less what `url` ends in already: all of it, or whole steps of what stands before the end."""
    root = path.removesuffix(_CHAT)
    heads = [path, *(root[:end] for end in range(len(root), 0, -1) if root[end : end + 1] in ("", "/"))]
    head = next((head for head in heads if url.endswith(head)), "")
    return url + path.removeprefix(head)


def _first(names: Sequence[str], environ: Mapping[str, str]) -> str | None:
    return next((value for name in names if (value := environ.get(name))), None)
