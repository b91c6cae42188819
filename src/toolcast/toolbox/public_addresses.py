"""Public IP addresses and the host of a URL, for protection against SSRF: no I/O.

A model that chooses URLs must not reach addresses that only this machine can: its own services, its network, the
metadata service of a cloud, which returns keys. So a host is parsed as browsers do (WHATWG URL standard): `127.1`,
`0x7f000001`, `2130706433` and `127。0。0。1` are all 127.0.0.1, and the connection goes to the parsed address. An IPv4
address is public if no registry of special purposes lists it (IANA's, RFC 6890; `ipaddress` has most of it). An IPv6
address is public only within 2000::/3; the rest is reserved. An IPv4 address inside an IPv6 one is checked as itself.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from itertools import chain
from typing import Final, TypeAlias
from urllib.parse import quote, urlsplit

from ..lazy.lazy_dataclasses import dataclass

IPAddress: TypeAlias = IPv4Address | IPv6Address

# The standard library's table (`ipaddress`), in the words of an error; the first that is true of an address counts.
_KINDS: Final = (
    ("is_unspecified", "no address of any machine"),
    ("is_loopback", "this machine's own"),
    ("is_link_local", "link-local, where clouds publish their keys"),
    ("is_multicast", "multicast"),
    ("is_reserved", "reserved"),
    ("is_private", "private, or set aside for a special purpose"),
)
# What that table lacks, in one version of Python or another. The two ranges that are refused whole have parts that
# newer versions count as public, though no web server is there.
_LACKING: Final[tuple[tuple[IPv4Network | IPv6Network, str], ...]] = tuple(
    (ip_network(network), what)
    for network, what in (
        ("100.64.0.0/10", "shared by a provider's customers"),
        ("168.63.129.16/32", "a cloud's own service"),
        ("192.0.0.0/24", "reserved"),
        ("192.88.99.0/24", "reserved"),
        ("2001::/23", "reserved"),
        ("3fff::/20", "for documentation"),
        ("fec0::/10", "private"),
    )
)
_NAT64: Final = IPv6Network("64:ff9b::/96")


def refusal(address: IPAddress) -> str | None:
    """Return the reason why `address` is not public, as text; None if it is."""
    inner = _ipv4_in(address)
    if inner is not None:
        return None if (reason := refusal(inner)) is None else f"{address} means {reason}"
    kinds = (what for property, what in _KINDS if getattr(address, property))
    lacking = (what for network, what in _LACKING if address in network)
    return next((f"{address}, which is {what}" for what in chain(lacking, kinds)), None)


def _ipv4_in(address: IPAddress) -> IPv4Address | None:
    """Return the IPv4 address that `address` leads to: mapped, tunnelled (6to4) or translated (NAT64)."""
    if not isinstance(address, IPv6Address):
        return None
    translated = IPv4Address(int(address) & 0xFFFFFFFF) if address in _NAT64 else None
    return address.ipv4_mapped or address.sixtofour or translated


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a URL. `host` is a name in ASCII, or the normal form of an `address`; `path` has the query."""

    scheme: str
    host: str
    port: int
    path: str
    address: IPAddress | None = None

    @property
    def authority(self) -> str:
        """The host as in a URL, with the port if it is not the default."""
        shown = f"[{self.host}]" if ":" in self.host else self.host
        return shown if self.port == _PORTS[self.scheme] else f"{shown}:{self.port}"

    @property
    def url(self) -> str:
        """The URL in its normal form."""
        return f"{self.scheme}://{self.authority}{self.path}"

    def at(self, address: IPAddress) -> str:
        """Return the URL with `address` in place of the host."""
        shown = f"[{address}]" if address.version == 6 else address
        return f"{self.scheme}://{shown}:{self.port}{self.path}"


_PORTS = {"http": 80, "https": 443}
_LONGEST = 8000
_UNFIT = re.compile(r"[\x00-\x20\x7f\\]")
# Letters that the two versions of IDNA write differently: two names, and two owners.
_DOUBTFUL = re.compile("[ßς\u200c\u200d]")
_NAME = re.compile(r"(?!.{254})[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*")
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")


def target(url: str) -> Target:
    """Parse `url`. Raise `ValueError`, with a message for the model, unless it is a plain http or https URL."""
    url = url.strip()
    if _UNFIT.search(url):
        raise ValueError("a URL has no spaces, control characters or backslashes: write them as %20 and the like")
    if len(url) > _LONGEST:
        raise ValueError(f"a URL has at most {_LONGEST} characters")
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname
    except ValueError as error:
        raise ValueError(f"this is no URL: {error}") from None
    if parts.scheme not in _PORTS or not host:
        raise ValueError("a URL begins with http:// or https:// and a host")
    if "@" in parts.netloc:
        raise ValueError("a URL with a user name or a password in it is not fetched; leave that out")
    if port == 0:
        raise ValueError("port 0 cannot be used in a URL")
    path = quote(parts.path or "/", safe=_SAFE) + (f"?{quote(parts.query, safe=_SAFE)}" if parts.query else "")
    name, address = _host(host, bracketed="[" in parts.netloc)
    return Target(parts.scheme, name, port or _PORTS[parts.scheme], path, address)


_SAFE = "%/:?@!$&'()*+,;=~[]|^"


def _host(host: str, *, bracketed: bool) -> tuple[str, IPAddress | None]:
    """Return the host name, or the normal form of an address with the address."""
    if bracketed:
        try:
            address: IPAddress = IPv6Address(host)
        except ValueError as error:
            raise ValueError(f"{host!r} is no IPv6 address") from error
        if getattr(address, "scope_id", None):
            raise ValueError(f"{host!r} names a network card of this machine")
        return str(address), address
    name = _ascii(host)
    if _NUMBER.fullmatch(name.rpartition(".")[2]):
        address = _ipv4(name)
        return str(address), address
    if not _NAME.fullmatch(name):
        raise ValueError(f"{host!r} is no name of a host")
    return name, None


def _ascii(host: str) -> str:
    """Return the host name in ASCII, without a dot at its end."""
    if _DOUBTFUL.search(host):
        raise ValueError(f"{host!r} is ambiguous: write it as xn--...")
    try:
        return host.encode("idna").decode("ascii").lower().removesuffix(".")
    except UnicodeError as error:
        raise ValueError(f"{host!r} is no name of a host: {error}") from error


def _ipv4(name: str) -> IPv4Address:
    """Parse one to four numbers as an address, the last one for all bytes left; 0x.. is hex, 0.. octal."""
    numbers = [_number(label) for label in name.split(".")]
    *first, last = numbers
    if len(numbers) > 4 or any(number > 255 for number in first) or last >= 256 ** (4 - len(first)):
        raise ValueError(f"{name!r} is no IPv4 address")
    value = sum(number << 8 * (3 - place) for place, number in enumerate(first))
    return IPv4Address(value + last)


def _number(label: str) -> int:
    try:
        if len(label) > 20:  # no part of an address, even with leading zeros
            raise ValueError
        if label.startswith("0x"):
            return int(label[2:] or "0", 16)
        if not label.isdigit():
            raise ValueError
        return int(label, 8 if label.startswith("0") else 10)
    except ValueError:
        raise ValueError(f"{label!r} is no part of an IPv4 address") from None
