"""Permissions: the role that an account or token has, in the fleet of the address or everywhere.

What a view needs is declared there (:attr:`RoleView.roles`); who has which role is
:mod:`controlplane.access`. A fleet that an account may not see does not exist for it: 404.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

from rest_framework import exceptions
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request
from rest_framework.views import APIView

from controlplane.access import viewer
from controlplane.access.grants import NOTHING, Access
from controlplane.access.host_lookup import look_up
from controlplane.access.references import references_in, references_of
from controlplane.access.replica_hosts import HostCheck
from controlplane.access.roles import Role
from controlplane.models import ApiToken, Fleet
from controlplane.services.errors import Conflict, FieldError, Forbidden, NotFound
from controlplane.services.lookup import no_such_fleet
from controlplane.services.tokens import access_with
from controlplane.services.unit_of_work import unit_of_work

ASK = "Ask an administrator."


class RoleView(APIView):
    # A view that answers by role. No docstring: the reference would show it at each operation.

    roles: ClassVar[Mapping[str, Role]] = {}
    """Method → role that it needs; where nothing is said, *read* to read and *administer* to write."""
    limited: ClassVar[tuple[str, ...]] = ()
    """Methods of addresses without a fleet that also answer who has a role in some fleets only: they leave
    out what is not for them. The others need a role for all fleets."""
    access: Access = NOTHING
    _addresses: dict[str, tuple[str, ...] | None] | None = None
    """Of host names that were looked up for this request."""

    def perform_authentication(self, request: Request) -> None:
        super().perform_authentication(request)
        token = request.auth if isinstance(request.auth, ApiToken) else None
        self.access = access_with(request.user, token)
        viewer.set_viewer(self.access)

    def check_permissions(self, request: Request) -> None:
        super().check_permissions(request)
        method = "GET" if request.method == "HEAD" else request.method or ""
        needed = self.roles.get(method, Role.READ if method in SAFE_METHODS else Role.ADMINISTER)
        fleet = self.kwargs.get("fleet")
        if fleet is not None:
            self.check_role(needed, fleet)
        elif method in self.limited:
            _refuse_below(needed, self.access.anywhere, f"Your role is {self.access.text()}")
            if (named := request.query_params.get("fleet")) and self.access.everywhere is None:
                self.check_role(needed, named)
        else:
            self.check_role(needed)

    def check_role(self, needed: Role, fleet: str | None = None) -> None:
        """In the fleet, or in all. Raises NotFound, Forbidden."""
        have = self.access.everywhere
        if fleet is None:
            _refuse_below(needed, have, f"Your role is {self.access.text()}", "for all fleets")
            return
        if have is not None and have >= needed:
            return
        labels = Fleet.objects.filter(name=fleet).values_list("labels", flat=True).first()
        if labels is not None:
            have = self.access.of_labels(labels)
        if have is None:
            raise NotFound(no_such_fleet(fleet, self.access.fleet_names() or ()))
        _refuse_below(needed, have, f"Your role in fleet {fleet} is {have.word}")

    def check_settings(
        self,
        settings: Mapping[str, Any],
        labels: Mapping[str, str] | None = None,
        *,
        fleet: str = "",
        replica: str = "",
    ) -> None:
        """What is set in a fleet or replica must not reach beyond the fleets that the account administers.

        ``labels``: those that the fleet will have, where they change. ``fleet``, ``replica``: which of those
        that are there changes. Raises NotFound, Forbidden.
        """
        names = self.access.fleet_names(Role.ADMINISTER)
        if names is None:
            return
        if fleet:
            self.check_role(Role.ADMINISTER, fleet)
        if labels is not None and self.access.of_labels(labels) != Role.ADMINISTER:
            words = f"Your role is {self.access.text()}: give the fleet labels with which you administer it."
            raise Forbidden(words, [FieldError("/labels", words)])
        for field in ("default", "match"):
            if settings.get(field):
                words = (
                    f"{field} concerns requests to all fleets: that needs administer for all fleets. {ASK}"
                )
                raise Forbidden(words, [FieldError(f"/{field}", words)])
        known = references_of(names)
        for pointer, reference in references_in(settings):
            if reference not in known:
                words = (
                    f"No fleet that you administer uses {reference} yet: the first use of a reference needs "
                    f"administer for all fleets. {ASK}"
                )
                raise Forbidden(words, [FieldError(pointer, words)])
        self._check_hosts(HostCheck(settings, names, fleet, replica))

    def check_own_host(self, settings: Mapping[str, Any], fleet: str, replica: str) -> None:
        """A replica that registers itself must not be at a host and port of a fleet that the account does not
        operate. Raises Forbidden, Conflict."""
        names = self.access.fleet_names(Role.OPERATE)
        if names is not None:
            self._check_hosts(HostCheck(settings, {*names, fleet}, fleet, replica))

    def _check_hosts(self, hosts: HostCheck) -> None:
        for pointer, crossing in hosts.crossings(self._looked_up(hosts.names)):
            words = f"{pointer.removeprefix('/')}: {crossing} {ASK}"
            raise Forbidden(words, [FieldError(pointer, words)])

    def _looked_up(self, names: frozenset[str]) -> Mapping[str, tuple[str, ...] | None]:
        """Once for a request: in its transaction, others would wait for DNS. Raises Conflict."""
        if self._addresses is None:
            self._addresses = look_up(names)
        elif not names <= self._addresses.keys():
            raise Conflict("Replicas were registered or changed at the same time: try again.")
        return self._addresses

    @contextmanager
    def write_of_settings(
        self,
        settings: Mapping[str, Any],
        labels: Mapping[str, str] | None = None,
        *,
        fleet: str = "",
        replica: str = "",
    ) -> Iterator[None]:
        """Around a write that :meth:`check_settings` has allowed; with its arguments.

        Others write too between that and the write, while replicas are tried for seconds. So it is looked at
        again in the transaction, in which nobody else writes. Raises as that does.
        """
        with unit_of_work(self.request.user.get_username()):
            self.check_settings(settings, labels, fleet=fleet, replica=replica)
            yield


def _refuse_below(needed: Role, have: Role | None, words: str, where: str = "") -> None:
    if have is None or have < needed:
        scope = f" {where}" if where else ""
        hint = "Your account has read-only access. " if have == Role.READ and not where else ""
        raise exceptions.PermissionDenied(f"{hint}{words}; this needs {needed.word}{scope}. {ASK}")
