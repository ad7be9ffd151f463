from django.apps import AppConfig
from django.conf import settings

from routing.contract import own_folders


class ControlPlaneConfig(AppConfig):
    name = "controlplane"
    verbose_name = "Switchyard control plane"

    def ready(self) -> None:
        from controlplane import (
            checks,  # noqa: F401  (registers them)
            private_database,
        )

        private_database.connect()
        own_folders.keep(settings.DATA_DIR)
