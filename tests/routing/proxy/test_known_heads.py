"""Response heads that are known by their bytes, and not parsed again."""

import time
from email.utils import formatdate

import pytest

from tests.routing.proxy.rig import Rig


async def test_the_same_undated_response_again_is_dated_anew(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.fleet(await rig.replica())
    client = await rig.client()
    began = time.time()
    dates = []
    for later_s in (0, 0, 1, 2, 2):
        monkeypatch.setattr("routing.http.dates.time", lambda now=began + later_s: now)
        answer = await client.ask(b"GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n")
        assert (answer.status, answer.body) == (200, b"ok")
        dates += answer.get(b"date")
    assert dates == [formatdate(began + later_s, usegmt=True).encode() for later_s in (0, 0, 1, 2, 2)]
