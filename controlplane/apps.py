from django.apps import AppConfig


class ControlPlaneConfig(AppConfig):
    name = "controlplane"
    verbose_name = "Switchyard control plane"

    def ready(self) -> None:
        from controlplane import (
            checks,  # noqa: F401  (registers them)
            private_database,
        )

        private_database.connect()
