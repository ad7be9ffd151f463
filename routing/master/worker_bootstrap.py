"""Worker bootstrap: the first message to a worker, from the options of its proxy."""

import os
import secrets
import time

from routing.contract.address_rules import AddressRules
from routing.ipc.control_channel import WorkerBootstrap
from routing.master.options import Options
from routing.tls.certificate import Certificate

VIA_NAME = f"switchyard-{secrets.token_hex(6)}"
"""This proxy's pseudonym in Via (RFC 9110 §7.6.3), the same in all its workers: a request that comes back is
in a loop, one that comes from another Switchyard is not. Random, because it goes to clients and replicas."""


def bootstrap(
    options: Options,
    index: int,
    number: int,
    addresses: AddressRules,
    certificate: Certificate | None,
    prefixes_fd: int,
    totals_fd: int,
) -> WorkerBootstrap:
    """``index``: of the worker's slot. ``number``: its own, among those that live. ``prefixes_fd``: the
    descriptor of the prefix memory. ``totals_fd``: of the block of totals."""
    return WorkerBootstrap(
        name=options.name,
        parent_pid=os.getpid(),
        number=number,
        index=index,
        # Wall clock, because it must differ from those of an earlier master with the same pid.
        incarnation=time.time_ns() // 1_000_000,
        redis_url=options.redis_url,
        site=options.site,
        log_level=options.log_level,
        log_format=options.log_format,
        access_log=options.access_log,
        max_connections=options.max_connections,
        bodies=options.bodies,
        keys_required=options.keys_required,
        certificate=certificate,
        trace_sample_percent=options.trace_sample_percent,
        drain_s=options.drain_s,
        addresses=addresses,
        state_dir=None if options.state_dir is None else str(options.state_dir.absolute()),
        trusted_proxies=options.trusted_proxies,
        proxy_protocol=options.proxy_protocol,
        via_name=VIA_NAME,
        tracing=None if options.traces is None else options.traces.sampling,
        prefixes_fd=prefixes_fd,
        totals_fd=totals_fd,
    )
