"""Which addresses are public, and what host a URL really names."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urlsplit

import pytest
from hypothesis import given, strategies as st

from toolcast.toolbox.public_addresses import refusal, target

PRIVATE = [
    "0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.255.254",
    "168.63.129.16", "169.254.169.254", "169.254.170.2", "172.16.0.1", "172.31.255.255", "192.0.0.192", "192.0.2.1",
    "192.88.99.1", "192.168.0.1", "198.18.0.1", "198.19.255.255", "198.51.100.7", "203.0.113.9", "224.0.0.1",
    "239.255.255.255", "240.0.0.1", "255.255.255.255",
    "::", "::1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "64:ff9b::127.0.0.1",
    "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "100::1", "2001::1", "2001:2::1", "2001:db8::1", "2002:7f00:1::",
    "2002:a00:1::1", "3fff::1", "5f00::1", "4000::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0", "fec0::1",
    "ff02::1",
]  # fmt: skip
PUBLIC = [
    "1.1.1.1", "8.8.8.8", "11.0.0.0", "100.63.255.255", "100.128.0.0", "128.0.0.0", "168.63.129.17", "169.253.255.255",
    "172.15.255.255", "172.32.0.0", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "223.255.255.255",
    "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1", "2001:200::1", "2001:4860:4860::8888", "2606:4700::1111",
]  # fmt: skip


@pytest.mark.fault(140)
@pytest.mark.parametrize("text", PRIVATE)
def test_what_is_not_public(text: str) -> None:
    address = ip_address(text)
    why = refusal(address)
    assert why is not None
    assert refusal(address) is not None
    assert why.startswith(str(address))
    assert ", which is " in why


@pytest.mark.parametrize("text", PUBLIC)
def test_what_is_public(text: str) -> None:
    assert refusal(ip_address(text)) is None


@given(st.ip_addresses(v=4) | st.ip_addresses(network="2000::/3"))
def test_no_more_is_public_than_python_says(address: IPv4Address | IPv6Address) -> None:
    """Python's table is another one, of another time."""
    assert refusal(address) is not None or (address.is_global and not address.is_multicast)


@given(st.ip_addresses(v=4))
def test_an_address_inside_of_another_counts_as_itself(inner: IPv4Address) -> None:
    number = int(inner)
    for outer in (0xFFFF << 32 | number, 0x64FF9B << 96 | number, 0x2002 << 112 | number << 80 | 7):
        assert (refusal(IPv6Address(outer)) is None) == (refusal(inner) is None)


LOOPBACK = [
    "127.0.0.1", "127.0.0.1.", "127.1", "127.0.1", "2130706433", "017700000001", "0177.0.0.1", "0x7f.0.0.1",
    "0x7f000001", "0X7F.1", "0x7f.0x.0x.0x1", "127.000.000.001", "１２７.0.0.1", "127。0。0。1", "①②⑦.0.0.1",
]  # fmt: skip


@pytest.mark.parametrize("host", LOOPBACK)
def test_every_spelling_of_an_address(host: str) -> None:
    found = target(f"http://{host}:8080/x")
    assert found.address == IPv4Address("127.0.0.1")
    assert found.url == "http://127.0.0.1:8080/x"


@given(st.ip_addresses(v=4), st.lists(st.sampled_from([8, 10, 16]), min_size=4, max_size=4), st.integers(1, 4))
def test_any_address_in_any_spelling(address: IPv4Address, bases: list[int], parts: int) -> None:
    whole = int(address)
    numbers = [whole >> 8 * (3 - place) & 255 for place in range(parts - 1)]
    numbers.append(whole & (1 << 8 * (5 - parts)) - 1)
    forms = {8: "0{:o}", 10: "{}", 16: "0x{:x}"}
    host = ".".join(forms[base].format(number) for base, number in zip(bases, numbers, strict=False))
    assert target(f"http://{host}/").address == address


@pytest.mark.parametrize(
    ("url", "read"),
    [
        ("http://example.com", "http://example.com/"),
        (" HTTP://EXAMPLE.com:80/ ", "http://example.com/"),
        ("https://example.com:443/a?b=c#d", "https://example.com/a?b=c"),
        ("https://example.com:80", "https://example.com:80/"),
        ("http://example.com.:81?x", "http://example.com:81/?x"),
        ("http://my_host/", "http://my_host/"),
        ("https://bücher.de/ü?ä=%20\"", "https://xn--bcher-kva.de/%C3%BC?%C3%A4=%20%22"),
        ("http://[2606:4700:0::1111]:8080/", "http://[2606:4700::1111]:8080/"),
        ("http://1.1", "http://1.0.0.1/"),
    ],
)  # fmt: skip
def test_a_target(url: str, read: str) -> None:
    found = target(url)
    assert found.url == read
    assert found.url == target(found.url).url
    assert found.authority == urlsplit(read).netloc


def test_the_url_at_an_address() -> None:
    found = target("https://example.com/a?b")
    assert found.at(IPv4Address("1.2.3.4")) == "https://1.2.3.4:443/a?b"
    assert found.at(IPv6Address("2606::1")) == "https://[2606::1]:443/a?b"


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("", "begins with http"),
        ("example.com", "begins with http"),
        ("file:///etc/passwd", "begins with http"),
        ("ftp://example.com", "begins with http"),
        ("//example.com", "begins with http"),
        ("http://", "begins with http"),
        ("http:///x", "begins with http"),
        ("http://example.com\\@127.0.0.1/", "backslashes"),
        ("http://example.com/a b", "no spaces"),
        ("http://exam\tple.com/", "no spaces"),
        ("http://example.com/\r\nHost: x", "no spaces"),
        ("http://example.com/" + "a" * 8000, "at most 8000"),
        ("http://me@example.com", "user name"),
        ("http://:secret@example.com", "user name"),
        ("http://1.1.1.1@127.0.0.1/", "user name"),
        ("http://example.com:0/", "port 0"),
        ("http://example.com:70000/", "no URL"),
        ("http://example.com:x/", "no URL"),
        ("http://[::1/", "no URL"),
        ("http://[v1.x]/", "no IPv6 address"),
        ("http://[fe80::1%25eth0]/", "network card"),
        ("http://[1.2.3.4]/", "no IPv6 address|no URL"),
        ("http://a..b/", "no name of a host"),
        ("http://a!b/", "no name of a host"),
        ("http://%31%32%37.0.0.1.x/", "no name of a host"),
        (f"http://{'a' * 64}.com/", "no name of a host"),
        (f"http://{'a.' * 150}com/", "no name of a host"),
        ("http://faß.de/", "ambiguous"),
        ("http://1.2.3.4.5/", "no IPv4 address"),
        ("http://256.1.1.1/", "no IPv4 address"),
        ("http://1.1.65536/", "no IPv4 address"),
        ("http://4294967296/", "no IPv4 address"),
        ("http://08.1.1.1/", "no part"),
        ("http://x.1/", "no part"),
        ("http://" + "0" * 30 + "1/", "no part"),
        ("http://0xffffffffffffffffffffff/", "no part"),
    ],
)
def test_what_is_refused(url: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        target(url)


@given(st.text(max_size=60).map("http://{}".format) | st.text(max_size=60))
def test_any_text_is_read_or_refused_in_words(text: str) -> None:
    try:
        found = target(text)
    except ValueError as error:
        assert str(error)
    else:
        assert found.url.isascii()
        assert target(found.url) == found
