"""Date: a replica's own is passed on; where it gives none, each answer gets the moment of its own."""

import pytest

from routing.http import dates
from tests.routing.proxy.rig import Client, Replica, answer_bytes

GET = b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"
DATES = [b"Thu, 01 Jan 1970 00:16:40 GMT", b"Thu, 01 Jan 1970 00:16:41 GMT"]


@pytest.mark.parametrize(
    "framing", [b"Content-Length: 0\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"]
)
async def test_each_answer_without_one_gets_its_own(
    monkeypatch: pytest.MonkeyPatch, replica: Replica, client: Client, framing: bytes
) -> None:
    replica.script = answer_bytes(b"HTTP/1.1 200 OK\r\n" + framing)
    for second, date in zip((1000.0, 1001.9), DATES, strict=True):
        monkeypatch.setattr(dates, "time", lambda second=second: second)
        assert (await client.ask(GET)).get(b"date") == [date]
        assert (await client.ask(GET.replace(b"/ ", b"/v1/models "))).get(b"date") == [date]


async def test_a_replicas_own_is_passed_on(replica: Replica, client: Client) -> None:
    replica.script = answer_bytes(b"HTTP/1.1 200 OK\r\ndate: " + DATES[0] + b"\r\nContent-Length: 0\r\n\r\n")
    for _ in range(3):
        assert (await client.ask(GET)).get(b"date") == [DATES[0]]
