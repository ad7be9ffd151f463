"""Key reports: those of many keys say the same, and requests are served while they are made."""

import asyncio

import msgspec
import pytest

from routing.contract.table import KeyLimits
from routing.contract.telemetry import WorkerReport, decode_report, encode_report
from routing.shared.key_quotas import KeyQuotas
from routing.shared.quota_share import QuotaShare
from routing.worker.config.key_reports import AT_ONCE, key_reports


def used(count: int) -> KeyQuotas:
    quotas = KeyQuotas(None, QuotaShare())
    for number in range(count):
        counts = quotas.of(f"{number:064x}", KeyLimits(id=str(number))).counts
        counts.requests = number
        counts.answered(number)
    return quotas


@pytest.mark.parametrize("count", [0, 3, AT_ONCE, 3 * AT_ONCE + 1])
async def test_what_a_report_has(count: int) -> None:
    quotas = used(count)
    report = WorkerReport(worker="w", incarnation=1, sequence=1, keys=await key_reports(quotas))
    found = decode_report(encode_report(report)).keys
    assert msgspec.to_builtins(found) == msgspec.to_builtins(quotas.report())
    assert [(key.requests, key.latency) for key in found] == [(n, {n: 1}) for n in range(count)]


async def test_requests_are_served_in_between() -> None:
    quotas, turns = used(10 * AT_ONCE), 0
    making = asyncio.ensure_future(key_reports(quotas))
    while not making.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns >= 10
