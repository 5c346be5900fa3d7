"""A man in the middle: he delays, cuts lines, and lets commits happen of which the client never hears."""

import selectors
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Final, Self

from psycopg.conninfo import conninfo_to_dict, make_conninfo

_SOCKET_NAME: Final = ".s.PGSQL.5432"
_COMMIT_IS_DONE: Final = b"C\0\0\0\x0bCOMMIT\0"
"""The message that a command has completed, with its tag."""


class FaultyProxy:
    """Passes everything on to the server of `dsn`, until it is asked for a fault."""

    def __init__(self, dsn: str, *, folder: Path, swallow_each: int | None = None) -> None:
        self._server = conninfo_to_dict(dsn)
        self._folder = folder
        self._listener = socket.socket(socket.AF_UNIX)
        self._selector = selectors.DefaultSelector()
        self._mutex = Lock()
        self._peers: dict[socket.socket, socket.socket] = {}
        """Both ends of each line, by each other."""
        self._clients: set[socket.socket] = set()
        self._commits = 0
        self._is_over = Event()
        self.swallow_each = swallow_each
        """Of each n-th commit the answer is lost, and the line with it; None: of none."""
        self.delay_seconds = 0.0
        """How long each piece is on its way."""
        self.swallowed = 0
        """How many answers to a commit were lost."""
        self.cut_lines = 0
        """How many lines were cut on request."""
        self.delayed = 0
        """How many pieces were late."""

    def __enter__(self) -> Self:
        self._listener.bind(str(self._folder / _SOCKET_NAME))
        self._listener.listen()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._thread = Thread(target=self._serve)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._selector.close()
        self._listener.close()

    @property
    def dsn(self) -> str:
        """The same database, through this proxy."""
        parameters = {**self._server, "host": str(self._folder), "port": 5432, "sslmode": "disable"}
        return make_conninfo("", **parameters)

    def cut(self) -> None:
        """Cuts all lines, whatever is under way."""
        with self._mutex:
            for client in self._clients:
                with suppress(OSError):
                    client.shutdown(socket.SHUT_RDWR)
                self.cut_lines += 1

    def _serve(self) -> None:
        while not self._is_over.is_set():
            for end in self._ready():
                if end is self._listener:
                    self._accept()
                elif end in self._peers:
                    self._pass_on(end)
        for client in list(self._clients):
            self._hang_up(client)

    def _ready(self) -> Iterator[socket.socket]:
        for key, _ in self._selector.select():
            assert isinstance(key.fileobj, socket.socket)
            yield key.fileobj

    def _accept(self) -> None:
        try:
            client, _ = self._listener.accept()
        except OSError:
            return  # it is over
        try:
            server = self._connected()
        except OSError:
            client.close()
            return
        with self._mutex:
            self._peers |= {client: server, server: client}
            self._clients.add(client)
        self._selector.register(client, selectors.EVENT_READ)
        self._selector.register(server, selectors.EVENT_READ)

    def _connected(self) -> socket.socket:
        host, port = str(self._server["host"]), int(self._server.get("port") or 5432)
        if not host.startswith("/"):
            return socket.create_connection((host, port))
        server = socket.socket(socket.AF_UNIX)
        try:
            server.connect(f"{host}/.s.PGSQL.{port}")
        except OSError:
            server.close()
            raise
        return server

    def _pass_on(self, end: socket.socket) -> None:
        try:
            data = end.recv(65536)
            if data and self.delay_seconds:
                self._is_over.wait(self.delay_seconds)
                self.delayed += 1
            if data and not self._is_swallowed(end, data):
                self._peers[end].sendall(data)
                return
        except OSError:
            pass
        self._hang_up(end)

    def _is_swallowed(self, end: socket.socket, data: bytes) -> bool:
        if end in self._clients or self.swallow_each is None or _COMMIT_IS_DONE not in data:
            return False
        self._commits += 1
        is_swallowed = self._commits % self.swallow_each == 0
        self.swallowed += is_swallowed
        return is_swallowed

    def _hang_up(self, end: socket.socket) -> None:
        with self._mutex:
            for one in (end, self._peers[end]):
                self._selector.unregister(one)
                self._clients.discard(one)
                del self._peers[one]
                one.close()
