"""Waits until the proxy could answer, so that a start does not begin with refused requests."""

import asyncio
from typing import Any

import aiohttp

FLEETS = ("tiny-llm", "digits")
EVERY_S = 0.25


async def wait_until_ready(status_url: str) -> None:
    """Return when every fleet of FLEETS has a replica that all workers may pick, however long it takes."""
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as session:
        while not ready(await status(session, status_url)):  # noqa: ASYNC110  # another process's state
            await asyncio.sleep(EVERY_S)


async def status(session: aiohttp.ClientSession, url: str) -> dict[str, Any]:
    """The proxy's own status page; empty while it does not answer."""
    try:
        async with session.get(url) as response:
            found: dict[str, Any] = await response.json()
            return found
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
        return {}


def ready(status: dict[str, Any]) -> bool:
    workers = len(status.get("workers", []))
    fleets = status.get("fleets", {})
    return all(
        any(row["eligible_in_workers"] == workers for row in fleets.get(name, {}).get("replicas", []))
        for name in FLEETS
    )
