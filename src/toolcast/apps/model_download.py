"""Download of a model file by an https URL, for `toolcast pull`.

Every hop of a redirect is https and leads to a public address. The size is limited, and must fit the disk. What has
arrived stays in a `.part` file, beside a note of its URL and version; the next run goes on behind it if the server
still has that version (`If-Range`), and begins again otherwise. The file gets its name when it is whole and its hash
is the expected one.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import urljoin

from ..errors import LLMError, NotFound, ToolcastError
from ..lazy.lazy_dataclasses import dataclass
from ..llms.local.gguf import MAGIC
from ..text.terminal_text import visible
from ..toolbox.public_addresses import Target, target
from ..toolbox.public_http import REDIRECTS, PublicHTTP
from ..transport.network import Response
from ..values.capabilities import Progress

LIMIT: Final = 64 * 10**9
"""The default limit of a file in bytes."""
_REDIRECTS: Final = 10
_READ: Final = 60.0
"""Seconds without a byte after which a connection counts as lost."""
_RESUMED: Final = 5
"""Connections that may be lost in a row; one that has brought something starts the count again."""
_HEADERS: Final = {"accept": "*/*", "accept-encoding": "identity", "connection": "close"}


class DownloadError(ToolcastError):
    """A model file that could not be downloaded, or is not the expected one."""


@dataclass(frozen=True, slots=True)
class ModelDownload:
    """A download of `url` to `path`.

    Attributes:
        url: The https URL.
        path: The file in the end; `.part` and `.part.json` lie beside it before.
        http: Opens the requests.
        sha256: The expected hash in hexadecimal digits; None accepts any.
        limit: The most bytes of the file.
        progress: Called as `progress(done, total)`, in bytes, if the server tells the total.
    """

    url: str
    path: Path
    http: PublicHTTP
    sha256: str | None = None
    limit: int = LIMIT
    progress: Progress | None = None

    def run(self) -> str:
        """Download the file and return its hash.

        Raises:
            DownloadError: The message has the reason, and whether the next run goes on from here.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        failures, done = 0, self._size()
        while not self._part_is_whole():
            try:
                self._fetch()
            except (LLMError, TimeoutError) as error:
                failures = failures + 1 if self._size() <= done else 1
                done = self._size()
                if failures > _RESUMED or isinstance(error, NotFound):
                    why = f"{_reason(error)}{self._rest()}"
                    raise DownloadError(f"{self._shown} could not be downloaded: {why}") from error
            except ValueError as error:
                raise DownloadError(f"{self._shown} was not downloaded: {error}") from error
        return self._finish()

    def _fetch(self) -> None:
        """Append to the part file what one connection brings."""
        there, response = self._opened()
        try:
            if response.status == 416 and self._size():  # the file has become shorter
                self._part.unlink()
                return
            begin = self._check(there, response)
            with self._part.open("r+b" if begin else "wb") as file:
                file.seek(begin)
                file.truncate()
                self._copy(response, file.write, begin)
                file.flush()
                os.fsync(file.fileno())
        finally:
            response.close()

    def _opened(self) -> tuple[Target, Response]:
        """Return the response at the end of all redirects, and where it is from."""
        there = _secure(target(self.url))
        note = self._note()
        size = self._size() if note.get("url") == self.url and note.get("version") else 0
        resuming = {"range": f"bytes={size}-", "if-range": note["version"]} if size else {}
        for _ in range(_REDIRECTS + 1):
            response = self.http.open(there, _HEADERS | resuming, lambda: _READ)
            onward = response.headers.get("location") if response.status in REDIRECTS else None
            if not onward:
                return there, response
            response.close()
            there = _secure(target(urljoin(there.url, onward.strip().replace(" ", "%20"))))
        raise ValueError(f"it redirects more than {_REDIRECTS} times")

    def _check(self, there: Target, response: Response) -> int:
        """Return the position at which the body begins; raise `ValueError` for a response that is no such file."""
        if response.status not in (200, 206):
            hint = "; for a private or gated model download the file yourself" if response.status in (401, 403) else ""
            raise ValueError(f"{there.host} answers with the status {response.status}{hint}")
        begin = self._size() if response.status == 206 else 0
        span = response.headers.get("content-range", "")
        if response.status == 206 and not span.startswith(f"bytes {begin}-"):
            self._part.unlink(missing_ok=True)
            raise ValueError(f"{there.host} sends another part of the file ({visible(span)[:60]}); try again")
        length = response.headers.get("content-length", "")
        total = begin + int(length) if length.isascii() and length.isdigit() else None
        if total is not None and total > self.limit:
            raise ValueError(f"it has {_gigabytes(total)}, more than {_gigabytes(self.limit)}; see --max-size")
        free = shutil.disk_usage(self.path.parent).free
        if total is not None and total - begin > free:
            left = f"the disk of {self.path.parent} has {_gigabytes(free)} left"
            raise ValueError(f"it has {_gigabytes(total)}, and {left}")
        version = response.headers.get("etag", "")
        # A weak validator must not be compared for ranges (RFC 9110, section 13.1.5).
        version = response.headers.get("last-modified", "") if version.startswith("W/") or not version else version
        note = {"url": self.url, "version": version, "total": total}
        self._note_file.write_text(json.dumps(note), encoding="utf-8")
        return begin

    def _copy(self, response: Response, write: Callable[[bytes], object], begin: int) -> None:
        done, total, first = begin, self._note().get("total"), b""
        while chunk := response.read(_READ):
            if done < len(MAGIC):
                first += chunk[: len(MAGIC)]
                if not MAGIC.startswith(first[: len(MAGIC)]):
                    raise ValueError(_no_model(self.url))
            done += len(chunk)
            if done > self.limit:
                raise ValueError(f"it has more than {_gigabytes(self.limit)}; see --max-size")
            write(chunk)
            if self.progress is not None and total:
                self.progress(min(done, total), total)
        if total is None:  # the end of the body is the end of the file
            self._note_file.write_text(json.dumps(self._note() | {"total": done}), encoding="utf-8")

    def _finish(self) -> str:
        with self._part.open("rb") as file:
            digest = sha256()
            while chunk := file.read(1 << 20):
                digest.update(chunk)
        found = digest.hexdigest()
        if self.sha256 is not None and found != self.sha256:
            self._part.unlink()
            self._note_file.unlink(missing_ok=True)
            raise DownloadError(f"{self._shown} is another file: its sha256 is {found}, not {self.sha256}")
        self._part.replace(self.path)
        self._note_file.unlink(missing_ok=True)
        return found

    def _part_is_whole(self) -> bool:
        note = self._note()
        return note.get("url") == self.url and note.get("total") == self._size() and self._part.exists()

    def _note(self) -> dict[str, Any]:
        """Return the URL, the version and the size of the part file; empty if there is none."""
        with suppress(OSError, ValueError):
            found: Any = json.loads(self._note_file.read_text(encoding="utf-8"))
            if isinstance(found, dict) and self._part.exists():
                return cast("dict[str, Any]", found)
        return {}

    def _size(self) -> int:
        return self._part.stat().st_size if self._part.exists() else 0

    def _rest(self) -> str:
        size = self._size()
        return f"; the same command goes on after the {_gigabytes(size)} that are there" if size else ""

    @property
    def _part(self) -> Path:
        return self.path.with_name(f"{self.path.name}.part")

    @property
    def _note_file(self) -> Path:
        return self.path.with_name(f"{self.path.name}.part.json")

    @property
    def _shown(self) -> str:
        return visible(self.url.partition("?")[0])[:200]  # a query may be a signature, which is a key


def _secure(there: Target) -> Target:
    if there.scheme != "https":
        raise ValueError(f"{there.host} is not asked over http: only https keeps others from changing the file")
    return there


def _no_model(url: str) -> str:
    hint = "; the file of a page of Hugging Face has /resolve/ in place of /blob/" if "/blob/" in url else ""
    return f"it is no GGUF model file{hint}"


def _reason(error: LLMError | TimeoutError) -> str:
    return error.message.partition(". ")[0] if isinstance(error, LLMError) else "it took too long"


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:,.1f} GB" if size >= 1e8 else f"{size / 1e6:,.1f} MB"
