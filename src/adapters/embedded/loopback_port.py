"""Ports of 127.0.0.1 for servers that clients reach over the network."""

import random
import socket

# Below the ports that Linux and macOS give to clients by default: a client that tries again and again to reach a
# stopped server would sooner or later get the server's own port, connect to itself, and keep the server out.
_PORTS = range(20_000, 32_768)


def free_port() -> int:
    """Return a port that nobody listens on; nothing keeps it free."""
    while True:
        port = random.choice(_PORTS)  # noqa: S311 (no secret)
        if is_free(port):
            return port


def is_free(port: int) -> bool:
    """Tell whether a server could listen on the port now."""
    with socket.socket() as probe:
        # As servers do: connections that ended a moment ago do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
