"""Terms: what a fleet's snapshot says of picking a replica. Replaced as a whole, never edited."""

from dataclasses import dataclass, replace

from routing.balancing import strategies
from routing.balancing.strategies.base import Strategy
from routing.balancing.strategies.fault_isolation import IsolatedStrategy
from routing.contract.policy import Policy
from routing.contract.table import FleetSnapshot


@dataclass(frozen=True, slots=True)
class Terms:
    """Holds three copies of one strategy, because each remembers the list that it is given."""

    name: str
    """The fleet's."""
    policy: Policy
    strategy: Strategy
    """For all replicas that are eligible, or those of the proxy's own site."""
    remote_strategy: Strategy
    """For those of other sites."""
    passing_strategy: Strategy
    """For lists that come once."""


def terms_of(snapshot: FleetSnapshot, before: Terms | None = None) -> Terms:
    """``before``: those in force, whose strategies stay while no other is wanted, with what they have built
    for the replicas. Raises ValueError for a strategy or parameters that there are not."""
    policy = snapshot.policy
    if before is not None and _wanted(before.policy) == _wanted(policy):
        return replace(before, name=snapshot.name, policy=policy)
    strategy = _built(policy)
    # What one of another package keeps is its own affair: it gets those lists as well.
    passing = strategy if isinstance(strategy, IsolatedStrategy) else _built(policy)
    return Terms(snapshot.name, policy, strategy, _built(policy), passing)


def _wanted(policy: Policy) -> tuple[object, object]:
    return policy.strategy, policy.parameters


def _built(policy: Policy) -> Strategy:
    return strategies.build(policy.strategy, policy.parameters)
