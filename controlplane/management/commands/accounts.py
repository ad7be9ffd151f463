"""``manage.py accounts``: who may sign in, what each may do, and when each was last here."""

from typing import Any

from django.contrib.auth.models import User

from controlplane.access.grants import access_of
from controlplane.management.base import SwitchyardCommand


class Command(SwitchyardCommand):
    help = "Lists the accounts with their roles."

    def handle(self, *args: Any, **options: Any) -> None:
        for user in User.objects.order_by("username"):
            here = (
                f"last login {user.last_login:%Y-%m-%d %H:%M} UTC" if user.last_login else "never logged in"
            )
            may = access_of(user).text() if user.is_active else "disabled"
            self.stdout.write(f"{user.username}: {may}; {here}")
