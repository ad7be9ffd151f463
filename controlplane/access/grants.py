"""Grants (role bindings): what an account may do, the highest role of its grants, by fleet and everywhere."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from django.contrib.auth.models import AnonymousUser, User
from django.db.models import Q

from controlplane.access.roles import Role
from controlplane.access.selectors import Selector, parse_selector, selector_text, selects
from controlplane.models import Fleet, RoleGrant


class Grant(NamedTuple):
    role: Role
    selector: Selector
    """Empty: every fleet, and what belongs to none."""

    def text(self) -> str:
        """``operate team=search``, ``read all fleets``."""
        return f"{self.role.word} {selector_text(self.selector)}"

    @classmethod
    def parse(cls, text: str) -> "Grant":
        """``operate:team=search``, or ``read`` for all fleets. Raises ValueError with the cure."""
        role, colon, selector = text.partition(":")
        return cls(Role.named(role), parse_selector(selector) if colon else {})


READ_ALL = Grant(Role.READ, {})
ADMINISTER_ALL = Grant(Role.ADMINISTER, {})


@dataclass(frozen=True, slots=True)
class Access:
    grants: tuple[Grant, ...] = ()

    @property
    def everywhere(self) -> Role | None:
        """The role in every fleet, and for what belongs to no fleet. None: there is none."""
        return max((grant.role for grant in self.grants if not grant.selector), default=None)

    @property
    def anywhere(self) -> Role | None:
        """The highest role that there is in some fleet."""
        return max((grant.role for grant in self.grants), default=None)

    def of_labels(self, labels: Mapping[str, str]) -> Role | None:
        """The role in a fleet with these labels. None: the fleet does not exist, for this account."""
        return max((grant.role for grant in self.grants if selects(grant.selector, labels)), default=None)

    def fleet_names(self, role: Role = Role.READ) -> frozenset[str] | None:
        """Fleets in which the account has this role or a higher one. None: in all of them."""
        if (everywhere := self.everywhere) is not None and everywhere >= role:
            return None
        return self.among(labels_of_fleets(), role)

    def among(self, fleets: Mapping[str, Mapping[str, str]], role: Role = Role.READ) -> frozenset[str]:
        """Of fleets with these labels, those in which the account has this role or a higher one."""
        return frozenset(name for name, labels in fleets.items() if (self.of_labels(labels) or 0) >= role)

    def rows(self, column: str) -> Q:
        """Of rows that name a fleet in ``column``, those that the account may see."""
        names = self.fleet_names()
        return Q() if names is None else Q(**{f"{column}__in": sorted(names)})

    def limited(self, role: Role, selector: Selector | None = None) -> "Access":
        """The same, but no role above this one, and only in fleets that the selector selects."""
        narrowed = selector or {}
        return Access(
            tuple(
                Grant(min(grant.role, role), {**grant.selector, **narrowed})
                for grant in self.grants
                if not any(grant.selector.get(name, value) != value for name, value in narrowed.items())
            )
        )

    def text(self) -> str:
        return "; ".join(grant.text() for grant in self.grants) or "no role"


NOTHING = Access()


def labels_of_fleets() -> dict[str, Mapping[str, str]]:
    """Name → labels of every fleet."""
    return dict(Fleet.objects.values_list("name", "labels"))


def access_of(user: User | AnonymousUser) -> Access:
    """Reads the account's grants anew: a role that was taken away is gone at the next request."""
    if not isinstance(user, User) or not user.is_active:
        return NOTHING
    if user.is_superuser:
        return Access((ADMINISTER_ALL,))
    rows = RoleGrant.objects.filter(user=user).values_list("role", "selector")
    granted = tuple(Grant(Role.named(role), selector) for role, selector in rows)
    return Access(granted or (ADMINISTER_ALL if user.is_staff else READ_ALL,))


def stored(grants: Iterable[Grant], user: User) -> list[RoleGrant]:
    """Rows of grants, not saved yet."""
    return [RoleGrant(user=user, role=one.role.word, selector=dict(one.selector)) for one in grants]
