"""Fixtures of the tests of what workers share: fleets and pools, as the tests of balancing make them."""

from tests.routing.balancing.conftest import fail, make_pool, make_snapshot, make_spec, send

__all__ = ["fail", "make_pool", "make_snapshot", "make_spec", "send"]
