"""Which addresses are public, and what host a URL really names: no I/O.

A model that fetches what it likes must not reach what only this machine can: its own services, its network, the
address at which a cloud tells a machine its keys. So a host is read as browsers read it (the WHATWG URL standard):
`127.1`, `0x7f000001`, `2130706433` and `127。0。0。1` are all 127.0.0.1, and what is read here is what is connected to.
Of IPv4 everything is public that no table of special purposes names (IANA's, RFC 6890); of IPv6 only what is in the
part that was given out (2000::/3). An IPv4 address inside of an IPv6 one is looked at as itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import TypeAlias
from urllib.parse import quote, urlsplit

IPAddress: TypeAlias = IPv4Address | IPv6Address

_SPECIAL: tuple[tuple[IPv4Network | IPv6Network, str], ...] = tuple(
    (ip_network(network), what)
    for network, what in (
        ("0.0.0.0/8", "no address of any machine"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "shared by a provider's customers"),
        ("127.0.0.0/8", "this machine's own"),
        ("168.63.129.16/32", "a cloud's own service"),
        ("169.254.0.0/16", "link-local, where clouds tell their keys"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "for documentation"),
        ("192.88.99.0/24", "reserved"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "for measurements"),
        ("198.51.100.0/24", "for documentation"),
        ("203.0.113.0/24", "for documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
        ("::/128", "no address of any machine"),
        ("::1/128", "this machine's own"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "private"),
        ("ff00::/8", "multicast"),
        ("2001::/23", "reserved"),
        ("2001:db8::/32", "for documentation"),
        ("3fff::/20", "for documentation"),
    )
)
_GIVEN_OUT = IPv6Network("2000::/3")
# Where an IPv4 address stands in an IPv6 one, and how many bits follow it.
_HOLDS_IPV4 = ((IPv6Network("::ffff:0:0/96"), 0), (IPv6Network("64:ff9b::/96"), 0), (IPv6Network("2002::/16"), 80))


def refusal(address: IPAddress) -> str | None:
    """Why `address` is not public, in words; None for one that is."""
    held = _ipv4_in(address)
    if held is not None:
        return None if (why := refusal(held)) is None else f"{address} stands for {why}"
    for network, what in _SPECIAL:
        if address.version == network.version and address in network:
            return f"{address}, which is {what}"
    if isinstance(address, IPv6Address) and address not in _GIVEN_OUT:
        return f"{address}, which is reserved"
    return None


def is_public(address: IPAddress) -> bool:
    """Whether `address` is one of the public internet."""
    return refusal(address) is None


def _ipv4_in(address: IPAddress) -> IPv4Address | None:
    """The IPv4 address that `address` leads to: mapped, translated (NAT64) or tunnelled (6to4)."""
    if isinstance(address, IPv6Address):
        for network, behind in _HOLDS_IPV4:
            if address in network:
                return IPv4Address(int(address) >> behind & 0xFFFFFFFF)
    return None


@dataclass(frozen=True, slots=True)
class Target:
    """What a URL names. `host` is a name in ASCII, or an `address` as it is usually written; `path` has the query."""

    scheme: str
    host: str
    port: int
    path: str
    address: IPAddress | None = None

    @property
    def authority(self) -> str:
        """The host as it stands in a URL, with the port where it is not the usual one."""
        shown = f"[{self.host}]" if ":" in self.host else self.host
        return shown if self.port == _PORTS[self.scheme] else f"{shown}:{self.port}"

    @property
    def url(self) -> str:
        """The URL, in one certain spelling."""
        return f"{self.scheme}://{self.authority}{self.path}"

    def at(self, address: IPAddress) -> str:
        """The URL with `address` in place of the host."""
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
    """What `url` names. Raises `ValueError`, in words, for what is no plain http or https URL."""
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
        raise ValueError("nobody listens on port 0")
    path = quote(parts.path or "/", safe=_SAFE) + (f"?{quote(parts.query, safe=_SAFE)}" if parts.query else "")
    name, address = _host(host, bracketed="[" in parts.netloc)
    return Target(parts.scheme, name, port or _PORTS[parts.scheme], path, address)


_SAFE = "%/:?@!$&'()*+,;=~[]|^"


def _host(host: str, *, bracketed: bool) -> tuple[str, IPAddress | None]:
    """The name, or the address and how it is written."""
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
    """The name of a host in ASCII, without the dot that may stand at its end."""
    if _DOUBTFUL.search(host):
        raise ValueError(f"{host!r} can be read in two ways: write it as xn--...")
    try:
        return host.encode("idna").decode("ascii").lower().removesuffix(".")
    except UnicodeError as error:
        raise ValueError(f"{host!r} is no name of a host: {error}") from error


def _ipv4(name: str) -> IPv4Address:
    """The address that one to four numbers are, the last of them for all that is left; 0x.. is hex, 0.. octal."""
    numbers = [_number(label) for label in name.split(".")]
    *first, last = numbers
    if len(numbers) > 4 or any(number > 255 for number in first) or last >= 256 ** (4 - len(first)):
        raise ValueError(f"{name!r} is no IPv4 address")
    value = sum(number << 8 * (3 - place) for place, number in enumerate(first))
    return IPv4Address(value + last)


def _number(label: str) -> int:
    try:
        if len(label) > 20:  # leading zeros or not, it is no part of an address
            raise ValueError
        if label.startswith("0x"):
            return int(label[2:] or "0", 16)
        if not label.isdigit():
            raise ValueError
        return int(label, 8 if label.startswith("0") else 10)
    except ValueError:
        raise ValueError(f"{label!r} is no part of an IPv4 address") from None
