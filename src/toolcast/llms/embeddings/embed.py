"""`embed` and `aembed`: the embeddings of texts, in batches that the service accepts, several at once.

The batches are requests of the LLM that the model is named by: they have its URL, its key, its network, its retries and
its time limits. Written once for sync and async calls; only the workers differ, which are threads or tasks.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, cast

from typing_extensions import Unpack

from ...async_support import sync_driver
from ...async_support.exception_groups import collapse_groups
from ...errors import BadRequest, LLMError, MalformedEvent, UnsupportedLLMError
from ...lazy.lazy_dataclasses import dataclass
from ...providers.batch_codec import as_object
from ...providers.embedding_codec import (
    EmbeddedBatch,
    EmbeddingCodec,
    EmbeddingOptions,
    InputType,
    check_input_type,
    check_vector,
)
from ...providers.http_adapter import HTTPAdapter
from ...transport.cancel_handle import CancelHandle
from ...transport.network import IOBackend
from ...transport.transport_errors import scrub_exception
from ...values.option_types import require, require_flag, require_number
from ...values.usage import NO_USAGE, Usage
from ..client import client_of
from ..function_calling_llm import FunctionCallingLLM
from ..http.service import Service, service_of
from ..http_llm import LLMOptions, take_options
from ..named_llms import llm as make_llm, providers
from ..token_estimates import estimate_text_tokens
from .offline import NAMES, Embedder, offline_embedder

_MAX_CONCURRENCY: Final = 4


@dataclass(frozen=True, slots=True, repr=False)
class Embeddings:
    """The embeddings of texts.

    Attributes:
        vectors: One vector for each text, in the order of the texts, all of one length.
        usage: The tokens of the texts, with their cost where the price of the model is known; no tokens where the
            service does not report them.
        model: The model, as the service names it, or the name of the embedder.
        provider: The provider; empty for an embedder without a service.
    """

    vectors: list[list[float]]
    usage: Usage = NO_USAGE
    model: str = ""
    provider: str = ""

    @property
    def dimensions(self) -> int:
        """The length of the vectors; 0 without texts."""
        return len(self.vectors[0]) if self.vectors else 0

    def __repr__(self) -> str:
        shape = f"{len(self.vectors)} vectors of {self.dimensions} numbers"
        return f"Embeddings({shape}, model={self.model!r}, input_tokens={self.usage.input_tokens})"


def embed(
    texts: str | Iterable[str],
    model: str | FunctionCallingLLM | Embedder,
    *,
    dimensions: int | None = None,
    input_type: InputType | None = None,
    truncate: bool = False,
    extra: Mapping[str, Any] | None = None,
    **options: Unpack[LLMOptions],
) -> Embeddings:
    """Return the embeddings of texts.

    They are sent in batches that the service accepts, several at once. If one fails after its retries, the others are
    stopped, and its error is raised.

    Args:
        texts: The texts; a `str` is one text.
        model: The name of an embedding model, `"openai:text-embedding-3-small"`; an LLM of one service, made with that
            name, whose connections are used again by later calls; the name of an embedder without a service (`"words"`,
            `"wordllama"`, `"default"` for the better one that is installed, `"sentence-transformers:NAME"`); or an
            `Embedder` of one's own.
        dimensions: The length of the vectors. Default: the model's own.
        input_type: `"document"`, `"query"`, `"similarity"`, `"classification"` or `"clustering"`, for services that
            embed these differently; others ignore it. Default: the service's own, and `"document"` for Cohere.
        truncate: Cut a text that is too long for the model, where the service can. Default: it is an error.
        extra: Further fields of the request, in the service's own words.
        **options: Options of the LLM that a name stands for: `api_key`, `base_url`, ... Its `max_concurrency` is the
            number of requests at once, 4 by default.

    Raises:
        LLMError: The service refused a request, or the connection failed.
        MalformedEvent: A response has not one vector of finite numbers, of the length asked for, for each text.
        UnsupportedLLMError: The provider has no embeddings, or the name is unknown.
        BadRequest: The provider does not have an option.

    Example:
        ```python
        vectors = toolcast.embed(["Rivers bend.", "I like chess."], "openai:text-embedding-3-small").vectors
        ```
    """
    wanted = _Wanted(texts, dimensions, input_type, truncate, extra)
    found, own = _resolve(model, options)
    if not isinstance(found, FunctionCallingLLM):
        return _of_embedder(found, wanted, list(found.embed(wanted.texts)) if wanted.texts else [])
    try:
        return sync_driver.run(_of_llm(found, wanted, client_of(found).sync_backend()))
    finally:
        if own:
            found.close()


async def aembed(
    texts: str | Iterable[str],
    model: str | FunctionCallingLLM | Embedder,
    *,
    dimensions: int | None = None,
    input_type: InputType | None = None,
    truncate: bool = False,
    extra: Mapping[str, Any] | None = None,
    **options: Unpack[LLMOptions],
) -> Embeddings:
    """Return the embeddings of texts; see `embed`. An embedder without a service runs in a worker thread."""
    wanted = _Wanted(texts, dimensions, input_type, truncate, extra)
    found, own = _resolve(model, options)
    if isinstance(found, FunctionCallingLLM):
        if not own:
            return await _of_llm(found, wanted, client_of(found).async_backend())
        async with found:
            return await _of_llm(found, wanted, client_of(found).async_backend())
    from anyio import to_thread

    call = partial(_embed_all, found, wanted.texts)
    return _of_embedder(found, wanted, await to_thread.run_sync(call, abandon_on_cancel=True) if wanted.texts else [])


def embedding_providers() -> list[str]:
    """Return the providers that have embeddings, as the first part of a model's name."""
    from ...providers.chat_completions.services import SERVICES

    own = {"cohere", "google", "gemini", "mistral", "ollama"}
    return sorted(own | {name for name, service in SERVICES.items() if service.embeddings is not None})


class _Wanted:
    """The checked arguments of a call."""

    def __init__(
        self,
        texts: str | Iterable[str],
        dimensions: int | None,
        input_type: InputType | None,
        truncate: bool,
        extra: Mapping[str, Any] | None,
    ) -> None:
        self.texts: list[str] = _as_texts(texts)
        require_number("dimensions", dimensions, whole=True)
        if dimensions is not None and dimensions < 1:
            raise ValueError(f"dimensions={dimensions} must be at least 1")
        require_flag("truncate", truncate)
        check_input_type(input_type)
        self.dimensions: int | None = dimensions
        self._others = (input_type, truncate, extra)

    def options(self, model: str) -> EmbeddingOptions:
        """Return the options of a request."""
        return EmbeddingOptions(model, self.dimensions, *self._others)


def _as_texts(texts: object) -> list[str]:
    """Return the texts that a caller passed, one or several."""
    if isinstance(texts, str):
        return [texts]
    kind = type(texts).__name__
    if isinstance(texts, (bytes, Mapping)) or not isinstance(texts, Iterable):
        raise TypeError(f"texts: expected str or a list of str, got {kind}")
    found = list(cast("Iterable[object]", texts))
    for index, text in enumerate(found):
        require(f"texts[{index}]", text, str, "str")
    return cast("list[str]", found)


def _resolve(
    model: str | FunctionCallingLLM | Embedder, options: LLMOptions
) -> tuple[FunctionCallingLLM | Embedder, bool]:
    """Return the LLM or the embedder, and True if it was made here, so that it is to be closed."""
    given = take_options(options)
    embedder = offline_embedder(model) if isinstance(model, str) else None
    if isinstance(model, str) and embedder is None:
        if model.partition(":")[0] in providers():
            return make_llm(model, **given), True
        known = ", ".join([*NAMES, *[f"{provider}:MODEL" for provider in embedding_providers()]])
        raise UnsupportedLLMError(f"{model!r} names no embedding model; write one of: {known}")
    if given:
        name = next(iter(given))
        cast("dict[str, Any]", given).clear()
        raise TypeError(f"{name}= belongs to the name of a service's model: pass it to the LLM or the embedder instead")
    if embedder is not None:
        return embedder, False
    if not isinstance(model, (FunctionCallingLLM, Embedder)):
        raise TypeError(f"model: expected a name, an LLM or an Embedder, got {type(model).__name__}")
    return model, False


# -- an embedder without a service


def _embed_all(embedder: Embedder, texts: list[str]) -> list[Any]:
    # Vectors may be computed as they are read: in the worker thread, not in the event loop.
    return list(embedder.embed(texts))


def _of_embedder(embedder: Embedder, wanted: _Wanted, found: list[Any]) -> Embeddings:
    if wanted.dimensions is not None:
        raise BadRequest(f"dimensions={wanted.dimensions}: the embedder {embedder.name} has vectors of its own length")
    if len(found) != len(wanted.texts):
        raise ValueError(f"the embedder {embedder.name} returned {len(found)} vectors for {len(wanted.texts)} texts")
    vectors = [_floats(vector) for vector in found]
    for place, vector in enumerate(vectors):
        check_vector(vector, place, len(vectors[0]))
    return Embeddings(vectors, NO_USAGE, embedder.name)


def _floats(vector: Any) -> list[float]:
    convert = getattr(vector, "tolist", None)  # arrays: many times as fast as one number after the other
    return list(map(float, vector if convert is None else convert()))


# -- a service


async def _of_llm(llm: FunctionCallingLLM, wanted: _Wanted, backend: IOBackend) -> Embeddings:
    metadata = llm.metadata
    options = wanted.options(metadata.model_name)
    service = await service_of(llm, backend)
    codec = service.adapter.embeddings()
    if codec is None:
        raise UnsupportedLLMError(
            f"{metadata.provider} has no embeddings. There are some of: {', '.join(embedding_providers())}; "
            "and 'words' and 'wordllama' need no service."
        )
    run = _Run(service, codec, options, list(_batches(wanted.texts, codec)))
    await run.work_all(min(llm.max_concurrency or _MAX_CONCURRENCY, len(run.results)))
    batches = [batch for batch in run.results if batch is not None]
    vectors = [vector for batch in batches for vector in batch.vectors]
    lengths = {len(vector) for vector in vectors}
    if len(lengths) > 1:
        raise MalformedEvent(
            f"the embeddings have different lengths: {', '.join(map(str, sorted(lengths)))}. Send the texts again.",
            provider=metadata.provider,
            model=metadata.model_name,
        )
    model = next((batch.model for batch in batches if batch.model), metadata.model_name)
    return Embeddings(vectors, _usage(llm, batches, model), model, metadata.provider)


def _usage(llm: FunctionCallingLLM, batches: Sequence[EmbeddedBatch], model: str) -> Usage:
    """Return the tokens of the batches, with a price only if all of them are known."""
    usage = Usage(input_tokens=sum([batch.input_tokens or 0 for batch in batches]))
    unknown = not batches or any(batch.input_tokens is None for batch in batches)
    return usage if unknown else client_of(llm).price(usage, model)


def _batches(texts: Sequence[str], codec: EmbeddingCodec) -> Iterator[list[str]]:
    """Split the texts into batches that the service accepts."""
    batch: list[str] = []
    size = 0.0
    for text in texts:
        tokens = estimate_text_tokens(text)
        if batch and (len(batch) == codec.texts or size + tokens > codec.tokens):
            yield batch
            batch, size = [], 0.0
        batch.append(text)
        size += tokens
    if batch:
        yield batch


class _Run:
    """The batches of one call, and the workers that send them."""

    def __init__(
        self,
        service: Service[HTTPAdapter],
        codec: EmbeddingCodec,
        options: EmbeddingOptions,
        batches: list[list[str]],
    ) -> None:
        self.results: list[EmbeddedBatch | None] = [None] * len(batches)
        self._service = service
        self._codec = codec
        self._options = options
        self._left = deque(enumerate(batches))
        self._errors: list[Exception] = []

    async def work_all(self, workers: int) -> None:
        """Send all batches with so many workers, and raise the first error."""
        if workers <= 1:
            await self._work()
        elif self._service.backend.concurrent:
            await collapse_groups(partial(self._work_in_tasks, workers))
        else:
            self._work_in_threads(workers)
        if self._errors:
            raise self._errors[0]

    async def _work_in_tasks(self, workers: int) -> None:
        import anyio

        async with anyio.create_task_group() as group:
            for _ in range(workers):
                group.start_soon(self._work_or_stop, group.cancel_scope.cancel)

    def _work_in_threads(self, workers: int) -> None:
        from ...async_support.background_jobs import start_job

        handles = [CancelHandle() for _ in range(workers)]

        def stop() -> None:
            self._left.clear()
            for handle in handles:
                handle.break_off()

        async def work(handle: CancelHandle) -> None:
            with handle:
                await self._work_or_stop(stop)

        jobs = [start_job(partial(work, handle), concurrent=False, name="toolcast embed") for handle in handles]
        try:
            for job in jobs:
                job.wait()
        except BaseException:  # Ctrl-C
            stop()
            raise
        for job in jobs:
            if job.error is not None:  # no `Exception`: SystemExit
                raise job.error

    async def _work_or_stop(self, stop: Callable[[], object]) -> None:
        """Send batches until none is left. After an error, stop the other workers."""
        try:
            await self._work()
        except Exception as error:  # raised by `work_all`: a task group would raise a group of errors
            self._errors.append(error)
            stop()

    async def _work(self) -> None:
        while True:
            try:
                index, texts = self._left.popleft()  # atomic: threads share it
            except IndexError:
                return
            self.results[index] = await self._send(texts)

    async def _send(self, texts: list[str]) -> EmbeddedBatch:
        before, request = sys.exception(), None
        try:
            request = self._codec.request(texts, self._options)
            total = self._service.timeouts.total  # of each request: a call may have thousands
            response = await self._service.send(request, repeatable=True, total=total)
            try:
                return self._codec.read(response, len(texts), self._options)
            except MalformedEvent:
                if as_object(response.body).get("error"):
                    raise self._service.adapter.error(response.status, response.headers, response.body) from None
                raise
        except LLMError as error:
            # Its frames have the response, which may contain the key.
            scrub_exception(error, request, before)
            error.provider = error.provider or self._service.adapter.provider
            error.model = error.model or self._options.model
            raise
