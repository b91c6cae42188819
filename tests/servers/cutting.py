"""A way to a server that breaks off: what a connection carries back is cut after so many bytes.

    with cut(llama.url, after=900) as url:
        ... OpenAI(..., base_url=f"{url}/v1") ...

The server behind it is a real one; the network in between is bad.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit


@contextmanager
def cut(url: str, after: int) -> Iterator[str]:
    """The address that leads to the server at `url`, until `after` bytes have come back over a connection."""
    there = urlsplit(url)
    ways: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        accepting = threading.Thread(target=_accept, args=(listener, (there.hostname, there.port), after, ways))
        accepting.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            accepting.join()
            for way in ways:
                _end(way)


def _accept(listener: socket.socket, there: tuple[str, int], after: int, ways: list[socket.socket]) -> None:
    with suppress(OSError):
        while True:
            client, _ = listener.accept()
            server = socket.create_connection(there)
            ways += [client, server]
            for source, target, most in ((client, server, None), (server, client, after)):
                threading.Thread(target=_carry, args=(source, target, most), daemon=True).start()


def _carry(source: socket.socket, target: socket.socket, most: int | None) -> None:
    """Carry bytes until one side ends, or `most` of them were carried; then both sides end."""
    with suppress(OSError):
        while most != 0 and (data := source.recv(65536 if most is None else min(most, 65536))):
            target.sendall(data)
            most = None if most is None else most - len(data)
    _end(source)
    _end(target)


def _end(way: socket.socket) -> None:
    with suppress(OSError):
        way.shutdown(socket.SHUT_RDWR)
    way.close()
