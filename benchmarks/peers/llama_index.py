"""llama-index: `stream_structured_predict` of its OpenAI model, which asks this model for JSON as plain text."""

# /// script
# dependencies = ["llama-index-core", "llama-index-llms-openai"]
# ///

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

from documents import Document, text_events
from llama_index.core.prompts import PromptTemplate
from llama_index.llms.openai import OpenAI
from openai import DefaultHttpxClient
from peers.common import BASE_URL, Peer, Way, Wire, main, transport, under


def predict(document: Document, wire: Wire) -> Callable[[], Iterator[Any]]:
    """A partial model for each chunk."""
    http = under(DefaultHttpxClient)
    client = http.Client(transport=transport(http, wire))
    logging.getLogger("llama_index").setLevel(logging.ERROR)  # it would warn of each partial object
    llm = OpenAI("gpt-4o-mini", api_key="none", api_base=BASE_URL, http_client=client, max_retries=0)
    return lambda: llm.stream_structured_predict(document.type, PromptTemplate("Make one."))


READY = "from llama_index.llms.openai import OpenAI; OpenAI('gpt-4o-mini', api_key='none').stream_structured_predict"
PACKAGES = ("llama-index-core", "llama-index-llms-openai", "openai")

if __name__ == "__main__":
    main(Peer("llama-index", PACKAGES, READY, (Way("llama-index", "typed", predict, text_events),)))
