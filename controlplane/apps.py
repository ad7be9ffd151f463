"""Django app of the control plane: connects its system checks and signal handlers when it starts."""

from django.apps import AppConfig
from django.conf import settings

from routing.contract import protected_paths


class ControlPlaneConfig(AppConfig):
    name = "controlplane"
    verbose_name = "Switchyard control plane"

    def ready(self) -> None:
        # These two register themselves.
        from controlplane.config import replica_addresses, system_checks  # noqa: F401
        from controlplane.datastores import postgres_timeouts, sqlite_permissions
        from controlplane.probes import immediate  # noqa: F401

        sqlite_permissions.connect()
        postgres_timeouts.connect()
        replica_addresses.judge_by_settings()
        protected_paths.protect(settings.DATA_DIR)
