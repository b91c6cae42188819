"""The headers of each service, as it documents them or sends them; anything else is ignored."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from toolcast.batch.pacing.rate_limit_headers import LimitReading, read_limits

NOW = 1_800_000_000.0
DATE = "Fri, 15 Jan 2027 08:00:00 GMT"


def read(**headers: str) -> list[LimitReading]:
    return read_limits({name.replace("_", "-"): value for name, value in headers.items()}, NOW)


def test_openai() -> None:
    assert read(
        x_ratelimit_limit_requests="5000",
        x_ratelimit_remaining_requests="4999",
        x_ratelimit_reset_requests="12ms",
        x_ratelimit_limit_tokens="150000",
        x_ratelimit_remaining_tokens="149984",
        x_ratelimit_reset_tokens="6m0.5s",
        date=DATE,
    ) == [
        LimitReading("requests", 5000, 4999, 0.012, 60, gradual=True),
        LimitReading("tokens", 150_000, 149_984, 360.5, 60, gradual=True),
    ]


@pytest.mark.parametrize(
    ("limit", "remaining", "reset", "period"),
    [
        ("14400", "14370", "2m59.56s", 86400),  # Groq, and OpenAI's limits of a day
        ("200", "199", "7m12s", 86400),
        ("60", "59", "1s", 60),
        ("3600", "3599", "1", 60),  # Azure rounds to seconds
        ("120", "19", "8.4", 10),
        ("60", "60", "0s", 60),
        ("60", "10", "100d", 60),
    ],
)
def test_the_period_of_requests_follows_from_the_reset(limit: str, remaining: str, reset: str, period: float) -> None:
    names = {"limit": limit, "remaining": remaining, "reset": reset}
    (reading,) = read(**{f"x_ratelimit_{name}_requests": value for name, value in names.items()})
    assert reading.period == period


def test_mistral() -> None:
    assert read(
        x_ratelimit_limit_tokens_minute="5000000",
        x_ratelimit_remaining_tokens_minute="4999911",
        x_ratelimit_tokens_query_cost="52",
        x_ratelimit_limit_req_minute="720",
        x_ratelimit_remaining_req_minute="717",
        x_ratelimit_limit_req_fortnight="9",
        x_ratelimit_remaining_req_fortnight="9",
    ) == [
        LimitReading("tokens", 5_000_000, 4_999_911, None, 60, gradual=True),
        LimitReading("requests", 720, 717, None, 60, gradual=True),
    ]


def test_cerebras() -> None:
    assert read(
        x_ratelimit_limit_requests_day="100", x_ratelimit_remaining_requests_day="1", x_ratelimit_reset_requests_day="9"
    ) == [LimitReading("requests", 100, 1, 9, 86400, gradual=True)]


def test_anthropic() -> None:
    """Its plain tokens repeat the stricter of the two limits; resets are relative to the service's own clock."""
    headers = {"date": DATE}
    for name in ("requests", "tokens", "input_tokens", "output_tokens"):
        headers |= {
            f"anthropic_ratelimit_{name}_limit": "4000",
            f"anthropic_ratelimit_{name}_remaining": "3000",
            f"anthropic_ratelimit_{name}_reset": "2027-01-15T08:00:15Z",
        }
    assert read(**headers) == [
        LimitReading(name, 4000, 3000, 15, 60, gradual=True)  # type: ignore[arg-type]  # three of the literals
        for name in ("requests", "input_tokens", "output_tokens")
    ]
    only = {name: value for name, value in headers.items() if "put" not in name}
    assert [each.quantity for each in read(**only)] == ["requests", "tokens"]


@pytest.mark.parametrize(
    ("reset", "seconds"),
    [(str(int(NOW + 30) * 1000), 30), (str(int(NOW + 30)), 30), ("30", 30), (str(int(NOW - 5)), 0), ("", None)],
)
def test_openrouter_and_others_with_plain_names(reset: str, seconds: float | None) -> None:
    (reading,) = read(x_ratelimit_limit="20", x_ratelimit_remaining="19", x_ratelimit_reset=reset)
    assert reading == LimitReading("requests", 20, 19, seconds, None, gradual=seconds is None)


def test_together() -> None:
    found = read(
        x_tokenlimit_limit="1000", x_tokenlimit_remaining="10", x_ratelimit_remaining="3", x_ratelimit_reset="1"
    )
    assert found == [
        LimitReading("tokens", 1000, 10, None, 1, gradual=True),
        LimitReading("requests", None, 3, 1, 1),
    ]


def test_the_ietf_draft() -> None:
    found = read(
        ratelimit='"default";r=50;t=30, "daily";r=999, "bytes";r=5;t=9, "none";t=3, "bare";r=4',
        ratelimit_policy='"default";q=100;w=60,"daily";q=1000;w=86400,"bytes";q=9;qu="content-bytes"',
    )
    assert found == [
        LimitReading("requests", 100, 50, 30, 60),
        LimitReading("requests", 1000, 999, None, 86400, gradual=True),
    ]


def test_earlier_ietf_drafts() -> None:
    found = read(ratelimit_limit="100, 100;w=60", ratelimit_remaining="50", ratelimit_reset="30")
    assert found == [LimitReading("requests", 100, 50, 30, 60)]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"content-type": "text/html", "content-length": "5", "x-limit": "5"},
        {"x-ratelimit-limit-requests": "5"},
        {"x-ratelimit-remaining-requests": "5"},
        {"x-ratelimit-limit-requests": "0", "x-ratelimit-remaining-requests": "0"},
        {"x-ratelimit-limit-requests": "many", "x-ratelimit-remaining-requests": "-1"},
        {"x-ratelimit-remaining": "5", "x-ratelimit-reset": "tomorrow"},
        {"x-ratelimit-remaining": "5", "x-ratelimit-reset": "2027-01-15T08:00:15"},
        {"x-ratelimit-over-limit": "no"},
    ],
)
def test_what_is_no_limit_is_ignored(headers: dict[str, str]) -> None:
    assert read_limits(headers, NOW) == []


NAMES = [
    f"{prefix}{field}{quantity}"
    for prefix in ("x-ratelimit-", "ratelimit-", "x-tokenlimit-")
    for field in ("limit", "remaining", "reset")
    for quantity in ("", "-requests", "-tokens-minute")
]


@settings(max_examples=50)
@given(
    st.dictionaries(
        st.sampled_from([*NAMES, "ratelimit", "ratelimit-policy", "date", "anthropic-ratelimit-tokens-reset"]),
        st.text(max_size=30) | st.from_regex(r'["a-z0-9;=, .:TZ-]{0,30}', fullmatch=True) | st.floats().map(str),
    )
)
def test_any_header_is_a_limit_or_ignored(headers: dict[str, str]) -> None:
    for reading in read_limits(headers, NOW):
        assert reading.remaining >= 0
        assert reading.limit is None or reading.limit > 0
        assert reading.reset is None or reading.reset >= 0
