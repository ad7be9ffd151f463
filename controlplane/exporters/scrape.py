"""Scrape: asks exporters for their pages, all at once, as probes are sent (address policy, no redirects)."""

import asyncio
import time
from collections.abc import Sequence
from typing import NamedTuple

import aiohttp

from controlplane.exporters import pages
from controlplane.exporters.readings import DeviceReading, ExporterReading, HostReading
from controlplane.probes import prober
from routing.contract.addresses import parse_base_url
from routing.contract.probe_presets import ProbeRequest
from routing.contract.probe_result import status_words
from routing.contract.table import Tls

LIMIT_S = 4.0
MAX_PAGE_BYTES = 4 * 2**20
AT_ONCE = 100


class ScrapedExporter(NamedTuple):
    name: str
    host: str
    url: str


def scrape(exporters: Sequence[ScrapedExporter]) -> list[ExporterReading]:
    """One reading each; takes LIMIT_S for each AT_ONCE of them at most."""
    return asyncio.run(_all(exporters))


async def _all(exporters: Sequence[ScrapedExporter]) -> list[ExporterReading]:
    limit = asyncio.Semaphore(AT_ONCE)
    async with prober.new_session() as session:

        async def one(exporter: ScrapedExporter) -> ExporterReading:
            async with limit:
                return await _one(session, exporter)

        return list(await asyncio.gather(*(one(each) for each in exporters)))


async def _one(session: aiohttp.ClientSession, exporter: ScrapedExporter) -> ExporterReading:
    path = parse_base_url(exporter.url).path_prefix or "/metrics"
    request = ProbeRequest("GET", path, (("User-Agent", "switchyard"), ("Accept", "text/plain")))
    problem = ""
    devices: list[DeviceReading] = []
    node: HostReading | None = None
    try:
        async with asyncio.timeout(LIMIT_S):
            status, body = await prober.exchange(
                session, exporter.url, request, Tls(), most_bytes=MAX_PAGE_BYTES
            )
        if status == 200:
            devices, node = pages.read(body.decode(errors="replace"))
        else:
            problem = f"GET {path}: {status_words(status, body)}"
    except pages.NoFigures as error:
        problem = f"GET {path}: {error}"
    except (OSError, EOFError, TimeoutError, aiohttp.ClientError) as error:
        problem = f"GET {path}: {prober.verdict_of(error, LIMIT_S).words}"
    return ExporterReading(
        exporter=exporter.name,
        host=exporter.host,
        at=time.time(),
        problem=problem,
        devices=devices,
        node=node,
    )
