"""Terms (load-balancing policy): what a fleet's snapshot says about picking. Replaced, never edited."""

from dataclasses import dataclass, replace

from routing.balancing import strategies
from routing.balancing.strategies.base import Strategy
from routing.balancing.strategies.fault_isolation import IsolatedStrategy
from routing.contract.policy import Policy
from routing.contract.table import FleetSnapshot


@dataclass(frozen=True, slots=True)
class Terms:
    """Holds three copies of one strategy, because each caches what it derives from its list of replicas."""

    name: str
    """The fleet's."""
    policy: Policy
    strategy: Strategy
    """For all replicas that are eligible, or those of the proxy's own site."""
    remote_strategy: Strategy
    """For those of other sites."""
    passing_strategy: Strategy
    """For lists that are used only once."""

    def another_strategy(self) -> Strategy:
        """A further copy, for further lists. Of another package's strategy there is only one."""
        return self.strategy if isinstance(self.strategy, IsolatedStrategy) else _built(self.policy)


def terms_of(snapshot: FleetSnapshot, before: Terms | None = None) -> Terms:
    """``before``: the terms in use. Their strategies are kept, with their caches, if strategy and parameters
    are unchanged. Raises ValueError for an unknown strategy or invalid parameters."""
    policy = snapshot.policy
    if before is not None and _wanted(before.policy) == _wanted(policy):
        return replace(before, name=snapshot.name, policy=policy)
    strategy = _built(policy)
    # A strategy of another package gets these lists as well: what it caches is up to its author.
    passing = strategy if isinstance(strategy, IsolatedStrategy) else _built(policy)
    return Terms(snapshot.name, policy, strategy, _built(policy), passing)


def _wanted(policy: Policy) -> tuple[object, object]:
    return policy.strategy, policy.parameters


def _built(policy: Policy) -> Strategy:
    return strategies.build(policy.strategy, policy.parameters)
