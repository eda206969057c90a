"""Find ports for servers that tests start."""

import socket


def free_port() -> int:
    """Return an unused port of this machine."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]
