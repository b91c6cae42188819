"""The search for a batch that may have been submitted: the response to its submission was lost, or the process ended.

A batch is recognized by its tag, in its metadata or at the beginning of the ids of its results.
"""

from __future__ import annotations

from typing import Final

from ...errors import NotFound
from ...providers.batch_codec import BatchResult, BatchStatus
from .batch_service import BatchService
from .journal import Plan
from .open_batches import OpenBatches

GRACE: Final = 30.0
"""The seconds after which a batch that was submitted is in the provider's list, if it was created at all."""

CLOCK_SKEW: Final = 300.0
"""The seconds by which the clocks of this machine and the provider may differ."""


async def find_batch(service: BatchService, plan: Plan, since: float, known: OpenBatches) -> str | None:
    """Return the id of the batch that may have been submitted, from the provider's list of batches.

    Args:
        service: The batch API.
        plan: The batch.
        since: When it may have been submitted, in seconds since 1970. The list may lack it until `GRACE` seconds later,
            so it is read again then.
        known: The batches that are not this one.
    """
    while True:
        left = since + GRACE - service.backend.time()
        found = await _look_through(service, plan, known)
        if found is not None or left <= 0:
            return found
        await service.backend.sleep(left)


async def _look_through(service: BatchService, plan: Plan, known: OpenBatches) -> str | None:
    codec = service.codec
    cursor: str | None = None
    while True:
        batches, cursor = codec.read_page(await service.send(codec.list_page(cursor)), cursor)
        for status in batches:
            if await _is_batch_of(service, plan, status, known):
                return status.id
        # What is older than the plan is not its batch, and neither is what comes after it.
        oldest = min([status.created for status in batches if status.created is not None], default=None)
        old = codec.newest_first and oldest is not None and oldest < plan.created - CLOCK_SKEW
        if cursor is None or old:
            return None


async def _is_batch_of(service: BatchService, plan: Plan, status: BatchStatus, known: OpenBatches) -> bool:
    if service.codec.lists_tags:
        return status.tag == plan.tag
    # Only the results show the ids of the requests, which begin with the tag.
    if status.created is not None and status.created < plan.created - CLOCK_SKEW:
        return False
    if status.total is not None and status.total != len(plan.keys):
        return False
    if status.id in known.ids:
        return False
    while status.state == "running":
        await service.backend.sleep(known.longest_wait)
        status = await service.status(status.id)
    try:
        first = await _first_result(service, status)
    except NotFound:  # the results were deleted, as no other run deletes those of this plan
        return False
    return first is not None and first.id.startswith(plan.tag)


async def _first_result(service: BatchService, status: BatchStatus) -> BatchResult | None:
    if status.results:
        return status.results[0]
    for request in service.codec.downloads(status):
        download = await service.open(request)
        decoder = service.codec.result_decoder()
        try:
            while data := await download.read():
                if found := decoder.feed(data):
                    return found[0]
            if found := decoder.close():
                return found[0]
        finally:
            await download.close()
    return None
