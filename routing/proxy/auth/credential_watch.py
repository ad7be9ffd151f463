"""Credential injection: the header fields of replicas' credentials, ready-made in each replica's endpoint.

Requests never read a credential's file. It is read with each new table and, while any replica has a
credential, once a second by a timer. A replica whose credential cannot be read is not eligible. If it gets a
request all the same, its endpoint fails before anything is sent.
"""

from __future__ import annotations

import asyncio
import logging

from routing.balancing.pool.pool import Pool
from routing.balancing.pool.table import Table
from routing.balancing.replica.state import Replica
from routing.proxy.upstream_endpoint import UpstreamEndpoint
from routing.tls.credentials import CredentialError, Credentials
from routing.tls.reload_cache import LOOK_EVERY_S

log = logging.getLogger(__name__)


class CredentialWatch:
    """The credential watch of one worker."""

    def __init__(self, loop: asyncio.AbstractEventLoop, table: Table) -> None:
        self._loop = loop
        self._table = table
        self._credentials = Credentials()
        self._timer: asyncio.TimerHandle | None = None

    def follow(self, pool: Pool) -> None:
        """Read the credentials of a fleet's replicas: after a new table, and on the timer."""
        for replica in pool.replicas:
            before = replica.security.no_credential
            if not replica.spec.credential and not before and replica.endpoint is None:
                continue  # the usual case after a new table, of thousands of replicas perhaps
            self.equip(replica)
            if replica.security.no_credential != before:
                _say(pool.name, replica)
            if replica.spec.credential and self._timer is None:
                self._timer = self._loop.call_later(LOOK_EVERY_S, self._look)

    def equip(self, replica: Replica) -> None:
        """Read one replica's credential, and give it to the replica's endpoint."""
        reference = replica.spec.credential
        endpoint: UpstreamEndpoint | None = replica.endpoint  # type: ignore[assignment]
        try:
            value = self._credentials.bearer(reference) if reference else b""
        except CredentialError as error:
            replica.security.no_credential = str(error)
            if endpoint is not None:
                # Clients are told this; which file or variable it is, is for operators.
                endpoint.disable("its credential cannot be read")
            return
        replica.security.no_credential = ""
        if endpoint is not None:
            endpoint.set_credential(value)

    def _look(self) -> None:
        self._timer = None
        for pool in self._table.fleets.values():
            self.follow(pool)


def _say(fleet: str, replica: Replica) -> None:
    problem = replica.security.no_credential
    if problem:
        log.warning("replica %s of fleet %s gets no requests: %s", replica.name, fleet, problem)
    else:
        log.info("the credential of replica %s of fleet %s is there", replica.name, fleet)
