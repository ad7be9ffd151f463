"""A proxy whose host has no local ports left for a replica. Prints what its client sees, as JSON.

To be run in a network namespace of its own, for which the range of local ports is set:
``unshare -rn python -m tests.routing.proxy.without_local_ports``.
"""

import contextlib
import fcntl
import json
import socket
import struct
from pathlib import Path

import uvloop

from routing.contract.policy import Policy, Retries, Timeouts
from tests.routing.proxy.rig import LIMIT_S, Answer, Replica, Rig, until

POST = b"POST /x HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhello"
POLICY = Policy(
    strategy="round_robin",
    slow_start_s=0,
    retries=Retries(budget_percent=0),
    timeouts=Timeouts(connect_s=LIMIT_S),
)
SIOCSIFFLAGS, IFF_UP = 0x8914, 1


def raise_loopback() -> None:
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh", b"lo", IFF_UP))


def leave_two_ports() -> None:
    Path("/proc/sys/net/ipv4/ip_local_port_range").write_text("60000 60001")


def take_ports(replica: Replica, stack: contextlib.ExitStack) -> None:
    """All of them, for connections to this replica."""
    with contextlib.suppress(OSError):
        while True:
            taken = stack.enter_context(socket.create_connection(("127.0.0.1", replica.port)))
            # Its port is free again once it is closed.
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def seen(answer: Answer) -> dict[str, object]:
    why = b"".join(answer.get(b"x-switchyard-retry-reason"))
    return {"status": answer.status, "why": why.decode(), "body": answer.body.decode()}


async def main() -> None:
    raise_loopback()
    rig = Rig()
    await rig.start()
    first, second = await rig.replica(), await rig.replica()
    rig.fleet(first, second, policy=POLICY)
    client = await rig.client()
    leave_two_ports()
    with contextlib.ExitStack() as taken:
        take_ports(first, taken)
        one = [seen(await client.ask(POST)) for _ in range(12)]
        rig.proxy.give_back_idle()
        await until(lambda: not rig.proxy.upstreams)
        take_ports(second, taken)
        both = seen(await client.ask(POST))
    after = [seen(await client.ask(POST)) for _ in range(4)]
    replicas = rig.table.fleets["f"].replicas
    print(
        json.dumps(
            {
                "one": one,
                "both": both,
                "after": after,
                "asked": [len(first.requests), len(second.requests)],
                "failed": [replica.failed for replica in replicas],
                "ejected": [replica.ejection.count for replica in replicas],
            }
        )
    )
    await rig.stop()


if __name__ == "__main__":
    uvloop.run(main())
