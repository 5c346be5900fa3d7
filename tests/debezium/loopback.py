"""An embedded server listens on a Unix socket alone, and Java's driver knows none: a way in over the loopback."""

import selectors
import socket
from contextlib import suppress
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Thread
from types import TracebackType
from typing import Self

from psycopg.conninfo import conninfo_to_dict


class Loopback:
    """Passes on to the server of `dsn` what comes to a free port of 127.0.0.1; leave it when its clients have left."""

    def __init__(self, dsn: str) -> None:
        server = conninfo_to_dict(dsn)
        path = Path(str(server["host"])) / f".s.PGSQL.{server['port']}"

        class Passage(BaseRequestHandler):
            def handle(self) -> None:
                # A client that is killed resets its connection.
                with socket.socket(socket.AF_UNIX) as server, suppress(ConnectionError):
                    server.connect(str(path))
                    _pass_on(self.request, server)

        self._listener = ThreadingTCPServer(("127.0.0.1", 0), Passage)
        self._thread = Thread(target=self._listener.serve_forever)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._listener.shutdown()
        self._thread.join()
        self._listener.server_close()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._listener.server_address[1])


def _pass_on(client: socket.socket, server: socket.socket) -> None:
    with selectors.DefaultSelector() as selector:
        selector.register(client, selectors.EVENT_READ, server)
        selector.register(server, selectors.EVENT_READ, client)
        while True:
            for key, _ in selector.select():
                assert isinstance(key.fileobj, socket.socket)
                data = key.fileobj.recv(65536)
                if not data:
                    return
                key.data.sendall(data)
