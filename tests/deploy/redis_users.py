"""A real Redis with the users that deploy/redis/users.sh makes."""

import os
import subprocess
from pathlib import Path

from tests.conftest import RedisServer
from tests.deploy.services import PROJECT

SCRIPT = PROJECT / "deploy" / "redis" / "users.sh"
PASSWORDS = {
    "REDIS_CONTROL_PLANE_PASSWORD": "0a1b2c3d4e5f60718293a4b5c6d7e8f9",
    "REDIS_PROXY_PASSWORD": "f9e8d7c6b5a493827160f5e4d3c2b1a0",
}
CONTROL_PLANE = f"control-plane:{PASSWORDS['REDIS_CONTROL_PLANE_PASSWORD']}"
PROXY = f"proxy:{PASSWORDS['REDIS_PROXY_PASSWORD']}"
ROOT = "root:tests-only"


def made_users(**passwords: str) -> "subprocess.CompletedProcess[str]":
    environment = {"PATH": os.environ["PATH"], **passwords}
    return subprocess.run(["sh", str(SCRIPT)], env=environment, capture_output=True, text=True)


def with_users(folder: Path) -> RedisServer:
    """Not started. Besides the script's users it has one who may do everything, for the tests. Commands that
    a server's settings forbid are allowed, so that only the users' rights are in their way."""
    done = made_users(**PASSWORDS)
    assert done.returncode == 0, done.stderr
    name, _, password = ROOT.partition(":")
    (folder / "users.acl").write_text(f"{done.stdout}user {name} on >{password} ~* &* +@all\n")
    more = ("--enable-debug-command", "yes", "--enable-module-command", "yes")
    return RedisServer(folder / "redis.sock", "--aclfile", str(folder / "users.acl"), *more, user=ROOT)


def url(server: RedisServer, user: str) -> str:
    return f"unix://{user}@{server.socket}?db=0"
