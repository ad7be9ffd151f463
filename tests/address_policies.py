"""Address policies for tests: one in force for a while."""

from collections.abc import Iterator
from contextlib import contextmanager

from routing.contract import address_policy
from routing.contract.address_policy import AddressPolicy
from routing.contract.address_rules import AddressRules, OwnPort
from routing.contract.local_addresses import is_local


@contextmanager
def judged_by(
    *, allowed: tuple[str, ...] = (), denied: tuple[str, ...] = (), own: tuple[OwnPort, ...] = ()
) -> Iterator[None]:
    """In this process."""
    before = address_policy.use(AddressPolicy(AddressRules(allowed, denied, own), is_local))
    try:
        yield
    finally:
        address_policy.use(before)
