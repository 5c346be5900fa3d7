"""A process that owns an embedded broker: says where that is, or why there is none, and lives until its input ends."""

import sys

from adapters.embedded import EmbeddedBroker, EmbeddedBrokerError

if __name__ == "__main__":
    try:
        with EmbeddedBroker() as broker:
            sys.stdout.write(f"{broker.bootstrap_servers}\n")
            sys.stdout.flush()
            sys.stdin.read()
    except EmbeddedBrokerError as error:
        sys.stdout.write(f"{error}\n")
