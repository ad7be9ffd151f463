"""Some commands are for PostgreSQL."""

from tests.deploy.conftest import postgres_server

__all__ = ["postgres_server"]
