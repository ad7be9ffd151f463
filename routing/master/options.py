"""Command line of the proxy: flags, their defaults, and error messages."""

import argparse
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

import msgspec

from routing.contract import address_rules, trusted_proxies
from routing.contract.address_rules import AddressRules
from routing.contract.body_settings import BodySettings
from routing.contract.log_format import FORMATS, Format, default_format
from routing.contract.names import SLUG_RULE, is_slug
from routing.contract.tracing import TracingSettings
from routing.ipc import access_log, descriptors
from routing.master import export_settings
from routing.master.export_settings import ExportSettings
from routing.master.listeners import BindAddress

LOG_LEVELS = ("debug", "info", "warning", "error")
BODIES = BodySettings()
MIN_BODY_MEMORY_MIB, MAX_BODY_MEMORY_MIB = 16, 1_048_576
"""Below that the largest body that is searched (8 MiB) might never find room."""
MAX_WORKERS = 63
"""One less than the shared counters have room for: the last one is for a successor in a rolling restart."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options of one proxy. Exactly one of ``redis_url`` and ``fleets_file`` is set."""

    redis_url: str | None
    fleets_file: Path | None
    listen: BindAddress
    admin: BindAddress | None
    workers: int
    state_dir: Path | None
    name: str
    site: str
    """The proxy's site; empty: not configured."""
    probe: bool
    drain_s: float
    """The longest time from the first signal to the exit."""
    min_drain_s: float
    """How long new connections are still accepted after the first signal."""
    log_level: str
    log_format: Format
    access_log: str | None
    """A path, made absolute, or ``-`` for standard output; ``None``: none."""
    trace_sample_percent: float | None = 100.0
    """Share of sampled traces, of those that the proxy begins; ``None``: it begins none."""
    traces: ExportSettings | None = None
    """Where traces are exported to; ``None``: they are not recorded."""
    tls_certificate: Path | None = None
    """The listener uses TLS with this certificate; ``None``: plain HTTP."""
    tls_key: Path | None = None
    """``None``: the key is in the certificate's file."""
    max_connections: int | None = None
    """Client connections at one time, in each worker; ``None``: what the limit on descriptors allows."""
    bodies: BodySettings = BODIES
    open: bool = False
    """Whether requests from other machines are served while no client key exists."""
    addresses: AddressRules = AddressRules()
    """Addresses that replicas may have, as the environment says."""
    trusted_proxies: tuple[str, ...] = ()
    """Networks whose word about a client's address is taken."""
    proxy_protocol: bool = False
    """Whether each connection of the listener begins with a PROXY protocol header."""

    @property
    def keys_required(self) -> bool:
        """Whether a client key is required, even while none exists."""
        return not (self.open or self.listen.is_loopback)


class BadOptions(Exception):
    """The command line is invalid; the message is one sentence."""


def parse(arguments: Sequence[str]) -> Options:
    """Parse the command line. Raises :class:`BadOptions`; ``--help`` prints and exits as argparse does."""
    given = _parser().parse_args(arguments)
    if given.redis is None and given.fleets is None:
        raise BadOptions("say where the fleets come from: --redis URL or --fleets FILE")
    if given.redis is not None and given.fleets is not None:
        raise BadOptions("--redis and --fleets exclude each other: give one of them")
    if given.probe and given.fleets is None:
        raise BadOptions("--probe goes with --fleets; with --redis the control plane probes")
    if given.state_dir is not None and given.redis is None:
        raise BadOptions("--state-dir goes with --redis; with --fleets the file itself is kept")
    if given.tls_key is not None and given.tls_certificate is None:
        raise BadOptions("--tls-key goes with --tls-certificate")
    if given.min_drain_seconds > given.drain_seconds:
        raise BadOptions("--min-drain-seconds must not be longer than --drain-seconds")
    if not given.name or "/" in given.name or len(given.name) > 100:
        raise BadOptions("--name must have 1 to 100 characters and no '/'")
    traces = _traces(given.traces_per_second)
    if traces is not None and "trace_sample" in given:
        words = "--trace-sample is for a proxy that exports no traces: set OTEL_TRACES_SAMPLER instead"
        raise BadOptions(words)
    sample = getattr(given, "trace_sample", 100.0) if traces is None else 100 * traces.sampling.ratio
    return Options(
        redis_url=None if given.redis is None else _redis_url(given.redis),
        fleets_file=given.fleets,
        listen=given.listen,
        admin=given.admin,
        workers=given.workers,
        state_dir=given.state_dir,
        name=given.name,
        site=_site(given.site),
        probe=given.probe,
        drain_s=given.drain_seconds,
        min_drain_s=given.min_drain_seconds,
        log_level=given.log_level,
        log_format=given.log_format or _format_of_environment(),
        access_log=_access_log(given.access_log),
        trace_sample_percent=sample,
        traces=traces,
        tls_certificate=given.tls_certificate,
        tls_key=given.tls_key,
        max_connections=given.max_connections,
        bodies=BodySettings(
            memory_bytes=given.body_memory << 20,
            stall_s=given.body_stall_seconds,
            total_s=given.body_seconds,
        ),
        open=given.open,
        addresses=_address_rules(),
        trusted_proxies=given.trusted_proxies,
        proxy_protocol=given.proxy_protocol,
    )


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise BadOptions(message)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m routing",
        description="The Switchyard proxy: sends each inference request to a replica of its fleet.",
    )
    add = parser.add_argument
    add("--redis", metavar="URL", help="Redis of the control plane, or env:NAME to read the URL from there")
    add("--fleets", metavar="FILE", type=Path, help="run without a control plane, on this fleet file")
    add("--listen", metavar="HOST:PORT", type=_address, default=BindAddress("127.0.0.1", 8080))
    add("--tls-certificate", metavar="FILE", type=Path, help="speak HTTPS on --listen, with this certificate")
    add("--tls-key", metavar="FILE", type=Path, help="its private key (default: in the certificate's file)")
    add("--admin", metavar="HOST:PORT|none", type=_admin_address, default=BindAddress("127.0.0.1", 8081))
    add("--workers", metavar="N", type=_workers, default=min(_usable_cpus(), MAX_WORKERS))
    add("--state-dir", metavar="DIR", type=Path, help="keep a copy of the table, for a start without Redis")
    add("--name", default=socket.gethostname(), help="name of this proxy in reports (default: the host's)")
    add(
        "--site",
        metavar="NAME",
        help="where it is: replicas of that site go first (default: SWITCHYARD_SITE)",
    )
    add("--probe", action="store_true", help="probe the replicas of the fleet file")
    add("--drain-seconds", metavar="S", type=_seconds, default=30.0, help="exit at the latest after a signal")
    add("--min-drain-seconds", metavar="S", type=_seconds, default=1.0, help="take new connections this long")
    add(
        "--max-connections",
        metavar="N",
        type=_max_connections,
        help="of clients, for each worker (default: half of what ulimit -n leaves)",
    )
    add(
        "--trusted-proxies",
        metavar="CIDR,…",
        type=_trusted_proxies,
        default=(),
        help="load balancers in front, whose X-Forwarded-For is believed (default: none)",
    )
    add("--proxy-protocol", action="store_true", help="connections begin with a PROXY protocol header")
    add(
        "--body-memory",
        metavar="MIB",
        type=_body_memory,
        default=BODIES.memory_bytes >> 20,
        help="for request bodies that are held, in each worker, MiB",
    )
    words = "give up a request body that hardly anything comes of for so long"
    add("--body-stall-seconds", metavar="S", type=_seconds_above_0, default=BODIES.stall_s, help=words)
    words = "give up a request body whose fleet is not known after so long"
    add("--body-seconds", metavar="S", type=_seconds_above_0, default=BODIES.total_s, help=words)
    add("--open", action="store_true", help="serve other machines without a client key while none exists")
    add(
        "--trace-sample",
        metavar="PERCENT|none",
        type=_percent,
        default=argparse.SUPPRESS,
        help="of the traces begun here (default: 100)",
    )
    add(
        "--traces-per-second",
        metavar="N",
        type=_traces_per_s,
        default=TracingSettings().traces_per_s,
        help="of each worker, where OTEL_EXPORTER_OTLP_ENDPOINT exports them",
    )
    add("--log-format", choices=FORMATS, help="default: SWITCHYARD_LOG_FORMAT, else text on a terminal")
    add("--access-log", metavar="PATH|-", help="a line for each request; - is standard output (default: off)")
    add("--log-level", choices=LOG_LEVELS, default="info")
    return parser


def _usable_cpus() -> int:
    return len(os.sched_getaffinity(0))


def _address(text: str) -> BindAddress:
    try:
        return BindAddress.parse(text)
    except ValueError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from problem


def _admin_address(text: str) -> BindAddress | None:
    return None if text == "none" else _address(text)


def _trusted_proxies(text: str) -> tuple[str, ...]:
    try:
        names = trusted_proxies.read(text)
    except ValueError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from problem
    if trusted_proxies.UNIX in names:
        raise argparse.ArgumentTypeError("the proxy listens on no Unix socket: leave unix out")
    return names


def _count(text: str, most: int, least: int = 1) -> int:
    if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from {least} to {most}")
    return int(text)


def _workers(text: str) -> int:
    return _count(text, MAX_WORKERS)


def _body_memory(text: str) -> int:
    return _count(text, MAX_BODY_MEMORY_MIB, MIN_BODY_MEMORY_MIB)


def _max_connections(text: str) -> int:
    count = _count(text, 10_000_000)
    limit = descriptors.hard_limit()
    most = descriptors.hard_max_connections(limit)
    if count > most:
        words = f"{text} do not fit: with ulimit -n {limit} it is {most} at most; raise that limit"
        raise argparse.ArgumentTypeError(words)
    return count


def _from_zero(text: str, most: float, what: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0.0 <= number <= most:
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
    return number


def _seconds(text: str) -> float:
    return _from_zero(text, 86_400.0, "a number of seconds from 0 to 86400")


def _seconds_above_0(text: str) -> float:
    seconds = _seconds(text)
    if not seconds:
        raise argparse.ArgumentTypeError("it must be above 0")
    return seconds


def _percent(text: str) -> float | None:
    return None if text == "none" else _from_zero(text, 100.0, "a percentage from 0 to 100, or none")


def _traces_per_s(text: str) -> float:
    return _from_zero(text, 10_000.0, "a number from 0 to 10000")


def _traces(traces_per_s: float) -> ExportSettings | None:
    """From OpenTelemetry's variables of the environment."""
    try:
        return export_settings.from_environment(os.environ, traces_per_s)
    except ValueError as problem:
        raise BadOptions(str(problem)) from problem


def _format_of_environment() -> Format:
    """The one setting that the proxy shares with the control plane, so that all logs look alike."""
    named = os.environ.get("SWITCHYARD_LOG_FORMAT", "").strip()
    for known in FORMATS:
        if named == known:
            return known
    if named:
        raise BadOptions(f"SWITCHYARD_LOG_FORMAT={named!r} is not one of {', '.join(FORMATS)}")
    return default_format(sys.stderr)


def _address_rules() -> AddressRules:
    """From the environment alone, as the control plane's, so that both judge alike."""
    try:
        return address_rules.from_environment(os.environ)
    except ValueError as problem:
        raise BadOptions(str(problem)) from problem


def _site(named: str | None) -> str:
    """From the command line, else from the environment, so that one container image can run at every site."""
    site = os.environ.get("SWITCHYARD_SITE", "") if named is None else named
    if site and not is_slug(site):
        where = "SWITCHYARD_SITE=" if named is None else "--site "
        raise BadOptions(f"{where}{site[:80]!r} is not the name of a site: {SLUG_RULE}")
    return site


def _access_log(place: str | None) -> str | None:
    if place is None or place == access_log.STANDARD_OUTPUT:
        return place
    path = str(Path(place).absolute())
    try:
        access_log.check(path)
    except OSError as problem:
        raise BadOptions(f"--access-log {place}: {problem.strerror}") from problem
    return path


def _redis_url(text: str) -> str:
    """The URL itself, or what ``env:NAME`` names, which keeps a password out of the process list."""
    url = text
    if text.startswith("env:"):
        url = os.environ.get(text[4:], "")
        if not url:
            raise BadOptions(f"--redis {text}: the environment variable is not set")
    if not url.startswith(("redis://", "rediss://", "unix://")):
        raise BadOptions("--redis: the URL must begin with redis://, rediss:// or unix://")
    try:
        urlsplit(url).port  # noqa: B018 (a property that raises)
    except ValueError as problem:
        raise BadOptions(f"--redis: {problem}") from problem
    return url
