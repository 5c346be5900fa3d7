"""A man in the middle who lets a commit happen and cuts the line before its answer arrives."""

import selectors
import socket
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Final, Self

from psycopg.conninfo import conninfo_to_dict, make_conninfo

_SOCKET_NAME: Final = ".s.PGSQL.5432"
_COMMIT_IS_SENT: Final = b"\0commit\0"  # as the text of an unnamed prepared statement
_COMMIT_IS_DONE: Final = b"COMMIT\0"  # as the tag of a completed command


class CommitSwallowingProxy:
    """Passes everything on to the server of `dsn`, but of each n-th commit the client never hears."""

    def __init__(self, dsn: str, *, folder: Path, swallow_each: int) -> None:
        self._server = conninfo_to_dict(dsn)
        self._folder = folder
        self._swallow_each = swallow_each
        self._commits = 0
        self._listener = socket.socket(socket.AF_UNIX)
        self.swallowed = 0
        """How many answers were swallowed."""

    def __enter__(self) -> Self:
        self._listener.bind(str(self._folder / _SOCKET_NAME))
        self._listener.listen()
        self._thread = Thread(target=self._accept)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    @property
    def dsn(self) -> str:
        """The same database, through this proxy."""
        parameters = {**self._server, "host": str(self._folder), "port": 5432, "sslmode": "disable"}
        return make_conninfo("", **parameters)

    def _accept(self) -> None:
        """Serves one client after the other, until the listener is shut down."""
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                with client, self._connected() as server:
                    self._pass_on(client, server)

    def _connected(self) -> socket.socket:
        host, port = str(self._server["host"]), int(self._server.get("port") or 5432)
        if not host.startswith("/"):
            return socket.create_connection((host, port))
        server = socket.socket(socket.AF_UNIX)
        server.connect(f"{host}/.s.PGSQL.{port}")
        return server

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        with ExitStack() as stack:
            selector = stack.enter_context(selectors.DefaultSelector())
            selector.register(client, selectors.EVENT_READ, server)
            selector.register(server, selectors.EVENT_READ, client)
            is_swallowing = False
            while True:
                for key, _ in selector.select():
                    assert isinstance(key.fileobj, socket.socket)
                    data = key.fileobj.recv(65536)
                    if not data:
                        return
                    if key.fileobj is client and _COMMIT_IS_SENT in data:
                        self._commits += 1
                        is_swallowing = self._commits % self._swallow_each == 0
                    if key.fileobj is server and is_swallowing and _COMMIT_IS_DONE in data:
                        self.swallowed += 1
                        return
                    if key.fileobj is client or not is_swallowing:
                        key.data.sendall(data)
