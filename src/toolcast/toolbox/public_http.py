"""HTTP requests to public addresses only, for URLs that a model or a file on the internet has chosen.

A host name is resolved once, all of its addresses must be public (`public_addresses`), and the connection goes to one
of these addresses: resolved again, a name may lead elsewhere (DNS rebinding). TLS and the `Host` header still use the
name. Nothing is sent through a proxy of the environment. The caller follows redirects, each with a request of its own.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from ipaddress import ip_address
from typing import Final

from ..errors import ConnectFailed, LLMError, Timeout
from ..lazy.lazy_dataclasses import dataclass
from ..transport.network import Network, Response, open_response
from ..values.http_request import HTTPRequest
from .public_addresses import IPAddress, Target, refusal

Resolve = Callable[[str, int], Sequence[str]]
"""A function that returns the addresses of a host, for a port. Raises `OSError` if there are none."""
Allowed = Callable[[IPAddress], bool]

REDIRECTS: Final = (301, 302, 303, 307, 308)
_CONNECT: Final = 10.0
_TRIED: Final = 4  # addresses of one host


def look_up(host: str, port: int) -> list[str]:
    """Return the addresses of a host by the system's resolver."""
    return [str(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


@dataclass(frozen=True, slots=True)
class PublicHTTP:
    """Opens requests to public hosts.

    Attributes:
        network: The network of the requests, which uses no proxy.
        resolve: Returns the addresses of a host.
        allowed: Returns whether an address may be used, in place of the rule that only public ones may.
    """

    network: Network
    resolve: Resolve = look_up
    allowed: Allowed | None = None

    def open(self, there: Target, headers: Mapping[str, str], left: Callable[[], float]) -> Response:
        """Return the response of the first address that accepts a connection.

        Args:
            there: The target of the request.
            headers: The headers, without `Host`.
            left: Returns the seconds that are left, or raises.

        Raises:
            ValueError: An address may not be used, or there is none; the message names the host.
            LLMError: The request failed.
        """
        failure: LLMError | None = None
        for address in self._addresses(there)[:_TRIED]:
            request = HTTPRequest("GET", there.at(address), {**headers, "host": there.authority}, b"", (), there.host)
            try:
                return open_response(self.network, request, connect=min(_CONNECT, left()), read=left())
            except (ConnectFailed, Timeout) as error:
                failure = error
        assert failure is not None
        raise failure

    def _addresses(self, there: Target) -> list[IPAddress]:
        """Return the addresses of the host, resolved once. Raises `ValueError` if any of them may not be used."""
        found = [there.address] if there.address is not None else self._resolved(there)
        name = there.host if there.address is None else "it"
        for address in found:
            if self.allowed is not None and not self.allowed(address):
                raise ValueError(f"{name} leads to {address}, which is not allowed")
            if self.allowed is None and (problem := refusal(address)) is not None:
                raise ValueError(f"{name} leads to {problem}; only public addresses are fetched")
        return found

    def _resolved(self, there: Target) -> list[IPAddress]:
        try:
            found = [ip_address(address) for address in self.resolve(there.host, there.port)]
        except OSError as error:
            raise ValueError(f"{there.host} has no address: {error.strerror or error}") from error
        if not found:
            raise ValueError(f"{there.host} has no address")
        return list(dict.fromkeys(found))
