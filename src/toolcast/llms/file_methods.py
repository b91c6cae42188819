"""`FileMethods`: the methods of an LLM for files that its provider stores."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypedDict, cast

from typing_extensions import Unpack

from ..async_support import sync_driver
from ..values.option_suggestions import refuse_unknown
from .client import LLMClient, client_of
from .defaults import replacement

if TYPE_CHECKING:
    from ..messages import FileRef
    from .uploads import Upload


class UploadOptions(TypedDict, total=False):
    """Options of an upload.

    Attributes:
        name: The name of the file at the provider. Default: that of the path, or `file`.
        media_type: The media type. Default: by the extension of the name.
        purpose: What the provider shall use it for, as the provider names it. Default: a file for messages.
        expires_in: The seconds after which the provider deletes it: for OpenAI and xAI an hour to 30 days, for
            Anthropic an hour to 90 days. Google always deletes files after 48 hours. Default: the provider's.
        reuse: Return the file that this LLM has uploaded before with `reuse=True`, if the content is the same (by its
            SHA-256), the media type and the other options, too, and the provider still has it for ten minutes or more.
            Default: False.
        timeout: The limit of the time that the provider processes the file, in seconds. Default: 600.
    """

    name: str | None
    media_type: str | None
    purpose: str | None
    expires_in: float | None
    reuse: bool
    timeout: float | None


class FileMethods:
    """The methods of an LLM for files that its provider stores."""

    def upload(self, source: str | os.PathLike[str] | bytes, **options: Unpack[UploadOptions]) -> FileRef:
        """Upload a file to the provider, and return the part with which messages to this provider refer to it.

        The size of the file is checked before it is read. What is uploaded are its bytes as they are at the beginning:
        one that grows meanwhile is cut there, one that becomes shorter is an error. OpenAI, xAI (Responses), Azure
        (Responses), Anthropic, Google and Mistral have such files.

        Args:
            source: The path of a regular file, or the content. URLs are not fetched: pass them as parts of a message.
            **options: Options of the upload, those of `UploadOptions`.

        Raises:
            BadRequest: The file is empty, larger than the provider accepts, or of an unknown type, or the provider
                cannot process it.
            LLMError: The provider refused the file, or the connection failed after the retries of the LLM.
            Timeout: The provider has not processed the file in time.
            UnsupportedLLMError: Messages to the provider cannot refer to files.

        Example:
            ```python
            report = llm.upload("report.pdf", expires_in=3600)
            response = llm.chat([user("Summarize this.", report)])
            llm.delete_file(report)
            ```
        """
        from .uploads import upload

        client = _client(self)
        request = client.prepare_upload(_upload("upload", source, options))
        return sync_driver.run(upload(client.file_owner, request, client.sync_backend()))

    async def aupload(self, source: str | os.PathLike[str] | bytes, **options: Unpack[UploadOptions]) -> FileRef:
        """Upload a file to the provider; see `upload`. The file is read in a worker thread."""
        from anyio import to_thread

        from .uploads import upload

        client = _client(self)
        request = await to_thread.run_sync(client.prepare_upload, _upload("aupload", source, options))
        return await upload(client.file_owner, request, client.async_backend())

    def describe_file(self, file: FileRef | str, *, timeout: float | None = 600) -> FileRef:
        """Return a file as the provider describes it now, with a new signed URL where it has one (Mistral).

        A file that is still being processed is waited for.

        Args:
            file: The reference, or the provider's id of the file.
            timeout: The limit of that wait in seconds.

        Raises:
            BadRequest: Another provider stores the file, or this one could not process it.
            NotFound: There is no such file.
            Timeout: The provider has not processed the file in time.
        """
        from .uploads import describe

        client = _client(self)
        return sync_driver.run(describe(client.file_owner, file, client.sync_backend(), timeout))

    async def adescribe_file(self, file: FileRef | str, *, timeout: float | None = 600) -> FileRef:
        """Return a file as the provider describes it now; see `describe_file`."""
        from .uploads import describe

        client = _client(self)
        return await describe(client.file_owner, file, client.async_backend(), timeout)

    def delete_file(self, file: FileRef | str) -> None:
        """Delete a file at the provider.

        Args:
            file: The reference, or the provider's id of the file.

        Raises:
            BadRequest: Another provider stores the file.
            NotFound: There is no such file.
        """
        from .uploads import delete

        client = _client(self)
        sync_driver.run(delete(client.file_owner, file, client.sync_backend()))

    async def adelete_file(self, file: FileRef | str) -> None:
        """Delete a file at the provider; see `delete_file`."""
        from .uploads import delete

        client = _client(self)
        await delete(client.file_owner, file, client.async_backend())


def _client(methods: FileMethods) -> LLMClient:
    return client_of(replacement() or cast("Any", methods))


def _upload(method: str, source: str | os.PathLike[str] | bytes, options: UploadOptions) -> Upload:
    from .uploads import Upload, as_source

    refuse_unknown(method, options, ("source", *UploadOptions.__annotations__))
    return Upload(as_source(source), **options)
