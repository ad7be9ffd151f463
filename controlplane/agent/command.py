"""``switchyard agent``: a console command that runs beside one model server."""

import logging
import os
import signal
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any
from urllib.parse import quote, urlsplit

from controlplane.agent.agent import Agent, AgentSettings
from controlplane.agent.http import HttpCaller

API_TIMEOUT_S = 10.0
_NUMBERS = frozenset({"weight", "max_concurrency", "memory_bytes", "request_bytes", "request_bytes_per_work"})
_TEXTS = frozenset({"hardware", "site", "version"})


def main(arguments: list[str], prog: str = "switchyard agent") -> int:
    """Exit status: 0 once the replica has left, 1 where requests may have been in flight, 2 on usage."""
    options = _parser(prog).parse_args(arguments)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(message)s")
    agent = Agent(
        AgentSettings(
            lease_url=_lease_url(options),
            token=options.token,
            replica={"url": options.url, **dict(options.set)},
            ready_url=options.ready or f"{options.url.rstrip('/')}/health",
            period_s=options.period,
            drain_s=options.drain,
        ),
        server=HttpCaller(options.timeout, options.server_ca),
        api=HttpCaller(API_TIMEOUT_S, options.ca),
    )

    def stop(number: int, frame: FrameType | None) -> None:
        if agent.stopping.is_set():
            os._exit(1)  # told twice: it is not to wait
        agent.stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    return agent.run()


def _lease_url(options: Namespace) -> str:
    fleet, source, name = (quote(part, safe="") for part in (options.fleet, options.source, options.name))
    return f"{options.api.rstrip('/')}/api/v1/fleets/{fleet}/sources/{source}/leases/{name}"


def _parser(prog: str) -> ArgumentParser:
    parser = ArgumentParser(
        prog=prog,
        description="Registers the model server beside it at a source of leases once it is ready, renews its "
        "lease, and on SIGTERM has it drained, waits for its requests in flight and ends. See "
        "docs/discovery.md.",
    )
    add = parser.add_argument
    add("--api", type=_http_url, required=True, metavar="URL", help="of Switchyard's web process")
    add("--token", type=_secret, required=True, metavar="REFERENCE", help="API token: env:NAME or file:PATH")
    add("--fleet", required=True)
    add("--source", required=True, help="a source of the fleet, of kind lease")
    add("--name", required=True, help="of the replica")
    add("--url", type=_http_url, required=True, metavar="URL", help="at which proxies reach the server")
    add("--ready", type=_http_url, metavar="URL", help="readiness URL; else --url and /health")
    add("--set", type=_setting, action="append", default=[], metavar="NAME=VALUE", help=_SET)
    add("--period", type=_seconds, default=2.0, metavar="S", help="between two looks at the server (2)")
    add("--timeout", type=_seconds, default=5.0, metavar="S", help="of one look (5)")
    add("--drain", type=_seconds, default=300.0, metavar="S", help="longest wait for requests (300)")
    add("--ca", default="", metavar="FILE", help="certificates trusted for --api; else the system's")
    add("--server-ca", default="", metavar="FILE", help="certificates trusted for --ready; else the system's")
    return parser


_SET = f"what the replica says of itself, once each: {', '.join(sorted(_TEXTS | _NUMBERS))}"


def _http_url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ArgumentTypeError(f"{text!r} must look like http://host:port")
    return text


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.1 <= value <= 86_400:
        raise ArgumentTypeError(f"{text!r} must be a number of seconds, 0.1 to 86400")
    return value


def _setting(text: str) -> tuple[str, Any]:
    name, separator, value = text.partition("=")
    if not separator or name not in _TEXTS | _NUMBERS:
        raise ArgumentTypeError(f"{text!r} must be NAME=VALUE, of {', '.join(sorted(_TEXTS | _NUMBERS))}")
    if name in _TEXTS:
        return name, value
    try:
        return name, int(value) if value.lstrip("-").isdecimal() else float(value)
    except ValueError:
        raise ArgumentTypeError(f"{text!r}: {name} must be a number") from None


def _secret(text: str) -> Callable[[], str]:
    kind, _, place = text.partition(":")
    if kind == "env" and place:
        if not os.environ.get(place):
            raise ArgumentTypeError(f"there is no environment variable {place}")
        return lambda: os.environ[place].strip()
    if kind == "file" and place:
        try:
            Path(place).read_text()
        except (OSError, ValueError) as error:
            raise ArgumentTypeError(f"{place} cannot be read: {error}") from None
        return lambda: Path(place).read_text().strip()
    raise ArgumentTypeError("must be a reference, env:NAME or file:PATH, not the token itself")
