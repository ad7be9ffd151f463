"""``python -m routing``: the proxy. ``--help`` lists the flags; docs/proxy.md explains them."""

import asyncio
import os
import sys

from routing.contract.fleet_file import FleetFileError
from routing.parent.certificate_files import CertificateFiles
from routing.parent.listeners import ListenFailed
from routing.parent.options import BadOptions, Options, parse
from routing.processes import logs
from routing.server import Server
from routing.standalone.fleet_file_feed import Standalone
from routing.tls.certificate import CertificateError
from routing.upgrade import inherited
from routing.upgrade.inherited import Inherited
from routing.upgrade.predecessor import HandoverFailed

COULD_NOT_START = 1
WRONG_INPUT = 2


def main() -> int:
    """Run the proxy until it is told to stop; the exit status."""
    try:
        options = parse(sys.argv[1:])
        standalone = _standalone(options)
        certificate = _certificate(options)
    except (BadOptions, CertificateError, FleetFileError) as problem:
        print(problem, file=sys.stderr)
        return WRONG_INPUT
    logs.configure(options.log_level, "parent", options.log_format)
    try:
        found = inherited.take(os.environ)
        options = inherited.options_with(options, found)
        return asyncio.run(_serve(options, standalone, certificate, found))
    except (ListenFailed, HandoverFailed) as problem:
        print(f"the proxy could not start: {problem}", file=sys.stderr)
        return COULD_NOT_START


def _standalone(options: Options) -> Standalone | None:
    if options.fleets_file is None:
        return None
    try:
        return Standalone(options.fleets_file, options.probe)
    except OSError as problem:
        raise BadOptions(f"--fleets {options.fleets_file}: {problem.strerror}") from problem


def _certificate(options: Options) -> CertificateFiles | None:
    if options.tls_certificate is None:
        return None
    return CertificateFiles(options.tls_certificate, options.tls_key)


async def _serve(
    options: Options,
    standalone: Standalone | None,
    certificate: CertificateFiles | None,
    found: Inherited,
) -> int:
    return await Server(options, standalone, certificate, found).run()


if __name__ == "__main__":
    sys.exit(main())
