"""``manage.py settings_page``: docs/settings.md, from the declarations in the code."""

from typing import Any

from controlplane.config.setting_docs import page
from controlplane.management.base import SwitchyardCommand


class Command(SwitchyardCommand):
    requires_system_checks: list[str] = []  # it only prints
    help = "Prints docs/settings.md: every setting with its values, default, meaning and an example."

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(page(), ending="")
