"""Fuzzing with fixed seeds: a short run and a long one. ``python -m tests.fuzzing`` makes longer ones."""

import re

import pytest

from routing.http import request_parser, response_head
from tests.fuzzing.run import SIDES, run


@pytest.mark.parametrize("side", sorted(SIDES))
async def test_what_is_forwarded_is_read_alike(side: str) -> None:
    counts, findings = await run(side, first_seed=1, count=1500)
    assert not findings
    assert counts["executions"] == 1500
    assert min(counts["forwarded"], counts["refused"]) > 300


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize("side", sorted(SIDES))
async def test_what_is_forwarded_is_read_alike_in_a_long_run(side: str) -> None:
    counts, findings = await run(side, first_seed=2001, count=40_000)
    assert not findings
    assert counts["executions"] == 40_000


async def test_a_lenient_request_parser_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """That whitespace before a colon were let through, say."""
    lenient = request_parser.FIELD_LINE.pattern.replace(b"++):", b"++)[ \\t]*+:", 1)
    monkeypatch.setattr(request_parser, "FIELD_LINE", re.compile(lenient))
    _, findings = await run("requests", first_seed=1, count=3000)
    assert findings


async def test_a_lenient_response_parser_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """That a Transfer-Encoding given twice were let through, say, or any."""

    def check_nothing(head: response_head.ResponseHead, values: list[bytes]) -> None:
        head.chunked = values[-1] == b"chunked"

    monkeypatch.setattr(response_head, "_check_transfer_encoding", check_nothing)
    _, findings = await run("responses", first_seed=1, count=3000)
    assert findings
