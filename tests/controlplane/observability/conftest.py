"""A database that commits and a real Redis, as in the control plane's own tests."""

from typing import Any

import pytest


@pytest.fixture
def stored(transactional_db: None, redis_server: Any) -> None:
    """For tests that ask a page or a check that needs both."""
