"""`NextBatch`, the batch that is being filled, and its submission.

Each step is recorded in the journal before it is taken.
"""

from __future__ import annotations

import secrets
from dataclasses import field, replace

from ...errors import ConnectFailed, LLMError
from ...lazy.lazy_dataclasses import dataclass
from ...providers.batch_codec import BatchCodec, BatchStatus
from ...values.http_request import HTTPRequest
from ..job_errors import ProviderBatchError
from .batch_item import RemoteItem
from .batch_service import BatchService
from .journal import Journal, Plan
from .open_batches import OpenBatches, RemoteBatch
from .recovery import find_batch


@dataclass(slots=True)
class NextBatch:
    """The batch that is being filled.

    Attributes:
        tag: Its tag.
        items: Its items.
        lines: Their requests.
        size: The size of these in bytes.
        full: True if no more items are added.
    """

    tag: str = field(default_factory=lambda: f"tc{secrets.token_hex(12)}")
    items: list[RemoteItem] = field(default_factory=list[RemoteItem])
    lines: list[bytes] = field(default_factory=list[bytes])
    size: int = 0
    full: bool = False

    def encode(self, request: HTTPRequest, codec: BatchCodec) -> bytes:
        """Return the line of the next item.

        Raises:
            ProviderBatchError: It is longer than the provider allows.
        """
        limits = codec.limits
        line = codec.encode(f"{self.tag}-{len(self.items)}", request)
        longest = limits.bytes if limits.line_bytes is None else min(limits.bytes, limits.line_bytes)
        if len(line) + 1 > longest:
            raise ProviderBatchError(
                f"the request has {len(line) + 1:,} bytes, and one in a batch of {codec.provider} may have "
                f"{longest:,}: make the input shorter, or leave out via='batch'"
            )
        return line

    def has_room(self, line: bytes, codec: BatchCodec) -> bool:
        """Return whether the bytes of `line` are within the provider's limit. If not, the batch is full."""
        self.full = self.size + len(line) + 1 > codec.limits.bytes
        return not self.full

    def add(self, item: RemoteItem, line: bytes, codec: BatchCodec) -> None:
        """Add an item."""
        self.items.append(item)
        self.lines.append(line)
        self.size += len(line) + 1  # with its line end
        self.full = len(self.items) >= codec.limits.requests


async def submit_batch(
    service: BatchService, journal: Journal, filled: NextBatch, known: OpenBatches
) -> RemoteBatch | LLMError:
    """Upload and submit a batch; return it, or the error with which the service refused it.

    Raises:
        LLMError: It is unknown whether the batch was submitted.
    """
    backend = service.backend
    plan = journal.plan(filled.tag, [(item.key, item.reserved) for item in filled.items], backend.time())
    try:
        file = await service.upload(filled.tag, filled.lines)
    except LLMError as error:
        await discard(service, journal, plan.tag, None)
        return error
    journal.submitting(plan.tag, file, backend.time())
    plan = replace(plan, file=file)
    created = await _create(service, plan, filled, known)
    if isinstance(created, LLMError):
        await discard(service, journal, plan.tag, file)
        return created
    journal.submitted(plan.tag, created.id)
    return RemoteBatch(plan, created.id, filled.items, created)


async def discard(service: BatchService, journal: Journal, tag: str, file: str | None) -> None:
    """Delete a batch that was not submitted from the journal, and its file."""
    if file is not None:
        await service.delete_file(file)
    journal.drop(tag)


async def _create(service: BatchService, plan: Plan, filled: NextBatch, known: OpenBatches) -> BatchStatus | LLMError:
    """Create the batch once; return its status, or the error with which it was certainly not created.

    Where the response was lost, the batch is looked for before it is created again.
    """
    request = service.codec.submit(plan.tag, filled.lines, plan.file)
    retries = service.max_retries
    while True:
        try:
            return service.codec.read_status(await service.send(request))
        except LLMError as error:
            if _was_refused(error):
                return error
            lost = error
        found = await find_batch(service, plan, service.backend.time(), known)
        if found is not None:
            return await service.status(found)
        if retries == 0:
            return lost
        retries -= 1


def _was_refused(error: LLMError) -> bool:
    """Return True if the service has certainly not created what was asked for."""
    if isinstance(error, ConnectFailed):
        return True
    return error.status is not None and 300 <= error.status < 500 and error.status not in (408, 409)
