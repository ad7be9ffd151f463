"""Every test here begins with an empty database that commits, and an empty Redis."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User

from controlplane.access.grants import Grant
from controlplane.models import ForcedPasswordChange
from controlplane.services import accounts, tokens
from tests.controlplane.access.teams import LABELS, OWN, THEIRS
from tests.controlplane.conftest import Api


@pytest.fixture(autouse=True)
def _fresh_stores(fresh_stores: None) -> None:
    """Writes commit, so that what happens on commit happens."""


@pytest.fixture
def sam(make_fleet: Callable[..., str]) -> Api:
    """Administers the fleets of one team."""
    make_fleet("find", labels=LABELS, replicas=[{"name": "a", "url": OWN}])
    make_fleet("auction", labels={"team": "ads"}, replicas=[{"name": "secret-name", "url": THEIRS}])
    accounts.create("sam", "tests", [Grant.parse("read:team=ads"), Grant.parse("administer:team=search")])
    ForcedPasswordChange.objects.all().delete()
    return Api(tokens.create(User.objects.get(username="sam"), "laptop", "tests")[1])
