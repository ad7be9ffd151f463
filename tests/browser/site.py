"""A real web process on a database of its own, as ``make up`` would run it, and a caller of its API."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

from controlplane.supervision.programs import WEB_OPTIONS
from tests.proxy_process import ROOT, free_port, until

ADMIN = ("anna", "a long password of Anna's")
LOOKER = ("leo", "a long password of Leo's")
OPERATOR = ("olga", "a long password of Olga's")
"""Operates the fleets with the label team=search."""
NEWCOMER = "nora"

_PREPARE = """
import json
from django.contrib.auth.models import User
from django.core.management import call_command
from controlplane.models import ForcedPasswordChange, RoleGrant
from controlplane.services import accounts, tokens
call_command("migrate", verbosity=0)
unused = ["drf_spectacular_sidecar", "rest_framework"]
call_command("collectstatic", interactive=False, verbosity=0, ignore_patterns=unused)
one_time = accounts.ensure_administrator({newcomer!r}, "tests")
admin = User.objects.create_user(*{admin}, is_staff=True)
looker = User.objects.create_user(*{looker})
operator = User.objects.create_user(*{operator})
RoleGrant.objects.create(user=operator, role="operate", selector={{"team": "search"}})
print(json.dumps({{"one_time": one_time, "token": tokens.create(admin, "tests", "tests")[1]}}))
"""


def _with_email(name: str, password: str) -> tuple[str, str, str]:
    return name, "", password


class Site:
    """``stop`` and ``start`` may be called any number of times; the address stays."""

    def __init__(self, folder: Path, redis_url: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log_file = folder / "web.log"
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("SWITCHYARD_")},
            "DJANGO_SETTINGS_MODULE": "controlplane.settings",
            "SWITCHYARD_DATA_DIR": str(folder),
            "SWITCHYARD_REDIS_URL": redis_url,
        }
        prepared = json.loads(self._django(_PREPARE).splitlines()[-1])
        self.one_time_password: str = prepared["one_time"]
        self.token: str = prepared["token"]
        self.process: subprocess.Popen[bytes] | None = None

    def _django(self, code: str) -> str:
        people = {"admin": ADMIN, "looker": LOOKER, "operator": OPERATOR}
        filled = code.format(
            newcomer=NEWCOMER, **{name: _with_email(*person) for name, person in people.items()}
        )
        command = [sys.executable, "-c", f"import django; django.setup()\n{filled}"]
        done = subprocess.run(command, cwd=ROOT, env=self.environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start(self) -> None:
        command = [sys.executable, "-m", "uvicorn", "controlplane.asgi:application", "--port", str(self.port)]
        command += WEB_OPTIONS
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(command, cwd=ROOT, env=self.environment, stdout=log, stderr=log)
        until(self._answers, "the web process answers", 40)

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(20)
            self.process = None

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log_file.read_text()
        try:
            with urllib.request.urlopen(f"{self.url}/livez", timeout=5):
                return True
        except OSError:
            return False

    def uses_redis(self) -> bool:
        """Whether it reaches Redis, and takes it for its own."""
        with urllib.request.urlopen(f"{self.url}/readyz", timeout=20) as response:
            return json.loads(response.read())["redis"] == "ok"

    def api(self, method: str, path: str, body: Any = None) -> Any:
        """Ask the REST API with an administrator's token, as a script would."""
        request = urllib.request.Request(
            f"{self.url}/api/v1{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Token {self.token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=20) as response:
            body = response.read()
            return json.loads(body) if body else None
