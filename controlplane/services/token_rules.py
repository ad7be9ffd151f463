"""API token rules: checks of a new token's name, role, labels and expiry.

They also limit what one token may give to another that it makes (delegation).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from controlplane.access.roles import Role
from controlplane.access.selectors import Selector, selector_text
from controlplane.models import ApiToken, RoleGrant
from controlplane.services.client_keys import label
from controlplane.services.errors import FieldError, Forbidden
from controlplane.services.validation import accepted, refuse
from routing.contract.field_rules import (
    Choice,
    FieldProblem,
    Flag,
    Number,
    Problems,
    Section,
    Text,
)
from routing.contract.label_rules import Labels

MOST_DAYS = 36_500


def moment(text: str) -> str:
    """A date or time (ISO 8601), UTC where it has no zone. Raises ValueError."""
    read_moment(text)
    return text


def read_moment(text: str) -> datetime:
    """As :func:`moment`. Raises ValueError."""
    try:
        at = datetime.fromisoformat(text.strip())
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except OverflowError:
        raise ValueError(_TOO_FAR) from None
    except ValueError:
        raise ValueError("is no time: write it as 2027-06-30 or 2027-06-30T12:00:00Z") from None


_TOO_FAR = f"is too far away: a token expires within {MOST_DAYS} days, or never"

TOKEN = Section(
    words="A token for the REST API.",
    what="an API token",
    fields={
        "name": Text(words="What it is for.", what="name", check=label, required='"laptop"'),
        "role": Choice(
            words="Its role, never above that of its user at the time. Not set: all that its user may.",
            options=tuple(RoleGrant.RoleChoice.values),
        ),
        "labels": Labels(words="Only fleets with all of these labels. Not set: all that its user may see."),
        "expires_in_days": Number(
            words="Days after which it expires. Not set: never.",
            minimum=1,
            maximum=MOST_DAYS,
            whole=True,
            unit="days",
            nullable=True,
        ),
        "expires_at": Text(
            words="When it expires, instead of `expires_in_days`.", what="time", check=moment, nullable=True
        ),
        "service": Flag(
            words="Whether it outlives its user's password; others end when that is changed. Needs "
            "administer for all fleets."
        ),
    },
)


@dataclass(frozen=True, slots=True)
class TokenSettings:
    name: str
    role: Role = Role.ADMINISTER
    selector: Selector | None = None
    expires_at: datetime | None = None
    service: bool = False

    def described(self) -> dict[str, Any]:
        """For the audit log."""
        expires = None if self.expires_at is None else self.expires_at.isoformat()
        labels = selector_text(self.selector) if self.selector else None
        return {"role": self.role.word, "labels": labels, "expires_at": expires, "service": self.service}


def checked(given: Mapping[str, Any], now: datetime) -> TokenSettings:
    """Raises Invalid."""
    problems: Problems = []
    kept = accepted((TOKEN.read_fields(given, "", problems), problems))
    return TokenSettings(
        name=kept["name"],
        role=Role.named(kept.get("role", "administer")),
        selector=kept.get("labels"),
        expires_at=_expiry(kept, now),
        service=kept.get("service", False),
    )


def _expiry(kept: Mapping[str, Any], now: datetime) -> datetime | None:
    days, at = kept.get("expires_in_days"), kept.get("expires_at")
    if days is not None and at is not None:
        refuse([FieldProblem("/expires_at", "say either expires_at or expires_in_days")])
    if days is not None:
        return now + timedelta(days=days)
    if at is None:
        return None
    moment_of_expiry = read_moment(at)
    if moment_of_expiry <= now:
        refuse([FieldProblem("/expires_at", "is over already: choose a time to come")])
    if moment_of_expiry - now > timedelta(days=MOST_DAYS):
        refuse([FieldProblem("/expires_at", _TOO_FAR)])
    return moment_of_expiry


def covers(one: ApiToken, other: ApiToken) -> bool:
    """Whether ``other``, of the same user, may nothing that ``one`` may not."""
    return Role.named(other.role) <= Role.named(one.role) and one.selector.items() <= other.selector.items()


def within(wanted: TokenSettings, maker: ApiToken) -> TokenSettings:
    """What ``wanted`` is where a token makes it: not more than that token may, nor for longer.

    What was not said is as of that token. Raises Invalid, Forbidden.
    """
    if wanted.service and not maker.service:
        words = "A token that ends with the password cannot make one that does not: make it on the page."
        raise Forbidden(words, [FieldError("/service", words)])
    selector = dict(wanted.selector or {})
    for name, value in maker.selector.items():
        if selector.setdefault(name, value) != value:
            words = f"the token that makes it is limited to {selector_text(maker.selector)}"
            refuse([FieldProblem(f"/labels/{name}", words)])
    expires_at = wanted.expires_at or maker.expires_at
    if expires_at is not None and maker.expires_at is not None and expires_at > maker.expires_at:
        words = f"is after {maker.expires_at:%Y-%m-%dT%H:%M:%SZ}, when the token that makes it expires"
        refuse([FieldProblem("/expires_at", words)])
    role = min(wanted.role, Role.named(maker.role))
    return TokenSettings(wanted.name, role, selector, expires_at, wanted.service)
