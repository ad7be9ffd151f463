"""Every test here begins with an empty database that commits, and an empty Redis."""

import pytest


@pytest.fixture(autouse=True)
def _fresh_stores(fresh_stores: None) -> None:
    """Writes commit, so that what happens on commit happens."""
