"""The requests to a batch API beside those of a whole job."""

from __future__ import annotations

import toolcast
from support.openai_batches import OpenAIBatchService
from toolcast.async_support import sync_driver
from toolcast.batch.remote.batch_service import batch_service
from toolcast.llms.client import client_of


def test_a_provider_without_files_has_none_to_delete() -> None:
    network = OpenAIBatchService()
    llm = toolcast.Anthropic("claude-haiku-4-5", api_key="k", network=network)
    service = sync_driver.run(batch_service(llm, client_of(llm).sync_backend()))
    sync_driver.run(service.delete_file("file_1"))
    assert not network.log
