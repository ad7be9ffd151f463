"""Key reports: the counters of all client keys for a worker's report, of many keys in slices.

As those of replicas (:mod:`routing.worker.config.fleet_reports`), the counters of thousands of keys are
encoded some at a time, and requests are served in between.
"""

import asyncio
from typing import cast

import msgspec

from routing.contract.telemetry import KeyCounters
from routing.shared.key_quotas import KeyQuotas

AT_ONCE = 200
"""Keys: some 1 ms, if all have sketches."""


async def key_reports(quotas: KeyQuotas) -> list[KeyCounters]:
    """The counters of all valid keys that have been used; encode them before the next request is served."""
    keys = quotas.reviewed()
    if len(keys) <= AT_ONCE:
        return [key.counters() for key in keys]
    found: list[msgspec.Raw] = []
    for at in range(0, len(keys), AT_ONCE):
        found += [msgspec.Raw(msgspec.json.encode(key.counters())) for key in keys[at : at + AT_ONCE]]
        await asyncio.sleep(0)
    return cast("list[KeyCounters]", found)
