"""usage_details.py: finer counts of a request's usage."""

from __future__ import annotations

from typing import Any

import pytest

from toolcast.values.usage import NO_USAGE, Usage, sum_usages
from toolcast.values.usage_details import COUNTS, NO_DETAILS, UsageDetails

SEARCHED = UsageDetails(web_searches=2, cache_creation_1h_tokens=7, service_tier="flex")


def test_only_what_is_reported_is_stored() -> None:
    assert NO_DETAILS.to_dict() == {}
    data = {"cache_creation_1h_tokens": 7, "web_searches": 2, "service_tier": "flex"}
    assert SEARCHED.to_dict() == data
    again = UsageDetails.from_dict(data)
    assert again == SEARCHED
    assert again.service_tier == "flex"
    assert Usage(1, 2, details=SEARCHED).to_dict()["details"] == data
    assert "details" not in Usage(1, 2).to_dict()
    assert Usage.from_dict(Usage(1, 2, details=SEARCHED).to_dict()).details.service_tier == "flex"


@pytest.mark.parametrize(
    ("data", "kind", "message"),
    [
        ({"searches": 1}, ValueError, "'searches' is no detail of a usage; there are: cache_creation_5m_tokens"),
        ({"web_searches": True}, TypeError, "web_searches: expected int, got bool True"),
        ({"web_searches": "1"}, TypeError, "web_searches: expected int, got str '1'"),
        ({"service_tier": 1}, ValueError, "'service_tier' is no detail"),
    ],
)
def test_stored_data_is_checked(data: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        UsageDetails.from_dict(data)


def test_the_tier_of_a_sum_is_that_of_all_its_requests() -> None:
    flex, default = Usage(1, details=SEARCHED), Usage(1, details=UsageDetails(service_tier="default"))
    assert (flex + flex).details.service_tier == "flex"
    assert (flex + default).details.service_tier is None
    assert (flex + NO_USAGE).details.service_tier == "flex"
    assert sum_usages([flex, NO_USAGE, flex]).details.service_tier == "flex"
    assert sum_usages([flex, default]).details.service_tier is None
    assert sum_usages([flex]).details == SEARCHED


def test_every_count_is_summed() -> None:
    each = UsageDetails(*range(1, len(COUNTS) + 1))
    assert (each + each).counts == {name: 2 * count for name, count in each.counts.items()}
    assert list(each.counts) == list(COUNTS)
