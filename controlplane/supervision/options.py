"""The flags of ``manage.py up``."""

import argparse
import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class UpOptions:
    host: str = "127.0.0.1"
    port: int = 8000
    proxy_port: int = 8080
    admin_port: int = 8081
    examples_port: int = 9100
    metrics_port: int | None = None
    workers: int = 2
    examples: bool = True
    client: bool = True
    data_dir: Path | None = None

    @property
    def is_public(self) -> bool:
        """Whether the dashboard would be reachable from other machines."""
        return not is_loopback(self.host)

    @property
    def first_metrics_port(self) -> int:
        """First of four ports: dashboard, worker, beat, conductor."""
        return self.admin_port + 1 if self.metrics_port is None else self.metrics_port

    @property
    def dashboard_url(self) -> str:
        host = "127.0.0.1" if self.host in ("0.0.0.0", "::") else self.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def proxy_url(self) -> str:
        return f"http://127.0.0.1:{self.proxy_port}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", default="127.0.0.1", help="address of the dashboard (127.0.0.1)")
    parser.add_argument("--port", type=port_number, default=8000, help="port of the dashboard and API (8000)")
    parser.add_argument("--proxy-port", type=port_number, default=8080, help="port for inference (8080)")
    parser.add_argument(
        "--admin-port", type=port_number, default=8081, help="port of the proxy's admin listener (8081)"
    )
    parser.add_argument(
        "--examples-port",
        type=port_number,
        default=9100,
        help="example replicas listen on this port + 1 … 4 and + 101 … 103 (9100)",
    )
    parser.add_argument(
        "--metrics-port",
        type=port_number,
        help="metrics and probes of dashboard, worker, beat and conductor: this port and the next three "
        "(those after --admin-port)",
    )
    parser.add_argument("--workers", type=int, default=2, choices=range(1, 65), metavar="N", help="proxy (2)")
    parser.add_argument("--no-examples", action="store_true", help="no example fleets and no example client")
    parser.add_argument("--no-client", action="store_true", help="no example client")
    parser.add_argument("--data-dir", type=Path, help="data folder (var/, or SWITCHYARD_DATA_DIR)")


def port_number(text: str) -> int:
    """1 to 65535, with a message for anything else."""
    if not text.isdigit() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: 1 to 65535")
    return int(text)


def from_parsed(parsed: dict[str, Any]) -> UpOptions:
    """From argparse's or Django's dict of parsed flags."""
    return UpOptions(
        host=parsed["host"],
        port=parsed["port"],
        proxy_port=parsed["proxy_port"],
        admin_port=parsed["admin_port"],
        examples_port=parsed["examples_port"],
        metrics_port=parsed["metrics_port"],
        workers=parsed["workers"],
        examples=not parsed["no_examples"],
        client=not (parsed["no_client"] or parsed["no_examples"]),
        data_dir=parsed["data_dir"],
    )


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
