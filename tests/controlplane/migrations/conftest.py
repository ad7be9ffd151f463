"""Takes the test database to a migration; afterwards it is at the newest again, and empty."""

from collections.abc import Callable, Iterator

import pytest
from django.apps.registry import Apps
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

Migrate = Callable[[str], Apps]


@pytest.fixture
def migrate(fresh_stores: None) -> Iterator[Migrate]:
    """To this migration of the control plane; answers the models of that time."""

    def to(name: str) -> Apps:
        executor = MigrationExecutor(connection)
        executor.migrate([("controlplane", name)])
        return executor.loader.project_state([("controlplane", name)]).apps

    yield to
    executor = MigrationExecutor(connection)
    executor.migrate(executor.loader.graph.leaf_nodes("controlplane"))
