"""``manage.py keda_scaler``: KEDA's external scaler (docs/scaling.md). Start as many as you like."""

import asyncio
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from controlplane.keda.server import TlsFiles, serve
from controlplane.management.base import SwitchyardCommand


class Command(SwitchyardCommand):
    requires_system_checks: list[str] = []  # it serves no pages
    help = "Tells KEDA how many replicas fleets need, over gRPC."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--listen", default="127.0.0.1:9191", metavar="HOST:PORT", help="default: 127.0.0.1:9191"
        )
        parser.add_argument("--tls-certificate", type=Path, metavar="FILE", help="PEM; with --tls-key")
        parser.add_argument("--tls-key", type=Path, metavar="FILE", help="PEM; with --tls-certificate")
        parser.add_argument(
            "--tls-client-ca", type=Path, metavar="FILE", help="PEM; clients need a certificate of this CA"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        certificate, key, ca = (options[f"tls_{name}"] for name in ("certificate", "key", "client_ca"))
        if (certificate is None) != (key is None):
            raise CommandError("--tls-certificate and --tls-key belong together: give both, or neither")
        if ca is not None and certificate is None:
            raise CommandError("--tls-client-ca needs --tls-certificate and --tls-key")
        tls = None if certificate is None else TlsFiles(certificate, key, ca)
        try:
            asyncio.run(serve(options["listen"], tls))
        except OSError as error:
            raise CommandError(str(error)) from None
