"""Roles (RBAC), each of which includes those before it."""

from enum import IntEnum

from controlplane.models import RoleGrant


class Role(IntEnum):
    READ = 1
    """See settings, live numbers and events."""
    OPERATE = 2
    """And steer traffic: drain, weights, policies, revisions."""
    ADMINISTER = 3
    """And decide what is there: fleets, replicas, addresses, credentials, labels."""

    @property
    def word(self) -> str:
        return self.name.lower()

    @classmethod
    def named(cls, word: str) -> "Role":
        """Raises ValueError, with the words that there are."""
        if word not in RoleGrant.RoleChoice.values:
            raise ValueError(f'"{word[:40]}" is no role: use {", ".join(RoleGrant.RoleChoice.values)}')
        return cls[word.upper()]
