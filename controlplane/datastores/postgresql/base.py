"""Database backend, as Django imports it by the name of its package (``ENGINE``)."""

from typing import Any

import psycopg
from django.db.backends.postgresql import base

from controlplane.datastores.postgresql import hangs


class DatabaseWrapper(base.DatabaseWrapper):
    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """Raises psycopg.OperationalError at once while the server is known to hang."""
        hangs.detector.check()
        try:
            connection: Any = super().get_new_connection(conn_params)
        except psycopg.errors.ConnectionTimeout:
            hangs.detector.login_timed_out(hangs.ServerAddress.named(conn_params))
            raise
        hangs.guard(connection)
        if "options" in self.settings_dict["OPTIONS"]:  # which may say how long a statement may take
            hangs.lift(connection)
        return connection
