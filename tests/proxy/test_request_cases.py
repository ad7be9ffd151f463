"""Every request case, on a fresh connection, after another request, and one byte at a time."""

import pytest

from tests.proxy.request_cases import CASES, FRAMING, Case
from tests.proxy.rig import Client, Replica, Rig, until

CANARY = b"GET /canary HTTP/1.1\r\nHost: a.test\r\n\r\n"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
@pytest.mark.parametrize("warm", [False, True], ids=["first", "second"])
async def test_case(case: Case, warm: bool, rig: Rig, replica: Replica, client: Client) -> None:
    if warm:
        assert (await client.ask(CANARY)).status == 200
    client.send(case.sent)
    await judge(case, client, replica, rig, int(warm))


@pytest.mark.parametrize("case", FRAMING, ids=lambda case: case.id)
async def test_case_bytewise(case: Case, rig: Rig, replica: Replica, client: Client) -> None:
    await client.send_bytewise(case.sent)
    await judge(case, client, replica, rig, 0)


async def judge(case: Case, client: Client, replica: Replica, rig: Rig, before: int) -> None:
    method = case.sent.lstrip(b"\r\n").split(b" ")[0]
    answers = [await client.answer(method) for _ in case.statuses]
    assert tuple(answer.status for answer in answers) == case.statuses
    if case.closes:
        assert answers[-1].get(b"connection") == [b"close"]
        assert await client.ends() == b""
    else:
        assert (await client.ask(CANARY)).status == 200
    expected = (b"",) * case.statuses.count(200) if case.bodies is None else case.bodies
    seen = [request for request in replica.requests[before:] if b"/canary" not in request.line]
    assert tuple(request.body for request in seen) == expected
    assert not any(b"smuggled" in request.line for request in replica.requests)
    # What was begun and could not be completed was aborted.
    await until(lambda: not [one for one in replica.open if one.incomplete])
    if case.check is not None:
        assert case.check(seen)
    other = await rig.client()
    assert (await other.ask(CANARY)).body == b"ok"
