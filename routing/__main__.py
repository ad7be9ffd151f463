"""``python -m routing``: the proxy. ``--help`` lists the flags; docs/proxy.md explains them."""

import asyncio
import os
import sys

from routing.contract.fleet_file import FleetFileError
from routing.ipc import logs
from routing.master import orphaned_workers, own_ports
from routing.master.certificate_watcher import CertificateWatcher
from routing.master.listeners import ListenFailed
from routing.master.master import Master
from routing.master.options import BadOptions, Options, parse
from routing.master.orphaned_workers import OrphanedWorkers
from routing.master.standalone.fleet_file_watcher import FleetFileWatcher
from routing.master.upgrade import inherited_memory, inherited_sockets
from routing.master.upgrade.inherited_sockets import InheritedSockets
from routing.master.upgrade.predecessor import HandoverFailed
from routing.tls.certificate import CertificateError

COULD_NOT_START = 1
WRONG_INPUT = 2


def main() -> int:
    """Run the proxy until it is told to stop; the exit status."""
    try:
        options = parse(sys.argv[1:])
        own_ports.judge_by(own_ports.in_options(options))
        standalone = _standalone(options)
        certificate = _certificate(options)
    except (BadOptions, CertificateError, FleetFileError) as problem:
        print(problem, file=sys.stderr)
        return WRONG_INPUT
    logs.configure(options.log_level, "master", options.log_format)
    try:
        found = inherited_sockets.from_environment(os.environ)
        orphaned = _orphaned(options, found)
        if orphaned.listeners and not found.listeners:
            found = InheritedSockets(orphaned.listeners)
        options = inherited_sockets.options_with(options, found)
        return asyncio.run(_serve(options, standalone, certificate, found, orphaned))
    except (ListenFailed, HandoverFailed) as problem:
        print(f"the proxy could not start: {problem}", file=sys.stderr)
        return COULD_NOT_START


def _standalone(options: Options) -> FleetFileWatcher | None:
    if options.fleets_file is None:
        return None
    try:
        return FleetFileWatcher(options.fleets_file, options.probe)
    except OSError as problem:
        raise BadOptions(f"--fleets {options.fleets_file}: {problem.strerror}") from problem


def _certificate(options: Options) -> CertificateWatcher | None:
    if options.tls_certificate is None:
        return None
    return CertificateWatcher(options.tls_certificate, options.tls_key)


def _orphaned(options: Options, found: InheritedSockets) -> OrphanedWorkers:
    """Workers of a master that was killed; a master that is there hands over by itself."""
    if found.channel is not None:
        return OrphanedWorkers()
    return orphaned_workers.find(found.address or options.listen, wait=not found.listeners)


async def _serve(
    options: Options,
    standalone: FleetFileWatcher | None,
    certificate: CertificateWatcher | None,
    found: InheritedSockets,
    orphaned: OrphanedWorkers,
) -> int:
    prefixes = inherited_memory.from_environment(os.environ)
    return await Master(options, standalone, certificate, found, orphaned, prefixes).run()


if __name__ == "__main__":
    sys.exit(main())
