"""What differs between a page's machine and this one: ports, interpreter, folders, addresses."""

import re
import sys
from pathlib import Path

from controlplane.supervision.environment import socket_path
from tests.docs.blocks import PROJECT, Command
from tests.system.stack import Stack

CRON = re.compile(r"^[\d*]+( [\d*,/-]+){4} (?=\S)")
SWITCHYARD = f"{sys.executable} -m controlplane.command_line"


def adapted(command: Command, stack: Stack, place: Path) -> str:
    """The command for this stack, which leaves files in ``place`` alone."""
    text = with_ports(command.text, stack)
    text = with_folders(text, place)
    text = text.replace("redis://127.0.0.1:6379/0", f"unix://{socket_path(stack.data)}?db=0")
    if CRON.match(text):
        text = CRON.sub("", text).replace(r"\%", "%")
    if command.page.startswith("docs/servers/"):
        text = registering(text, Path(command.page).stem)
    # tests/deploy/test_manage.py runs the script itself, with an environment file.
    text = re.sub(r"(?<![\w/.-])(/opt/switchyard/)?deploy/manage\.sh\b", "python manage.py", text)
    text = re.sub(r"(?<![\w/.-])\.venv/bin/switchyard\b", SWITCHYARD, text)
    # Not the link in ``place``, which would not be its environment's interpreter.
    return re.sub(r"(?<![\w/.-])(\.venv/bin/)?python3?(?= (-m|-c|manage\.py))", sys.executable, text)


def with_ports(text: str, stack: Stack) -> str:
    ports = {"8000": stack.port, "8080": stack.proxy_port, "8081": stack.admin_port}
    ports |= {str(8082 + offset): stack.metrics_port + offset for offset in range(4)}
    return re.sub(r"127\.0\.0\.1:(80\d\d)\b", lambda m: f"127.0.0.1:{ports.get(m[1], m[1])}", text)


def with_folders(text: str, place: Path) -> str:
    """Folders of a real machine; those that the page expects to be there already are made."""
    for there in ("/etc/switchyard", "/etc/systemd/system", "/etc/nginx", "/var/backups/switchyard"):
        here = place / there.replace("/", "-").strip("-")
        if there != "/etc/switchyard":  # which the page makes itself
            here.mkdir(exist_ok=True)
        text = re.sub(rf"(?<![\w.-]){there}(?=[/ \n]|$)", str(here), text)
    text = text.replace("/var/lib/switchyard-proxy", str(place / "proxy"))
    return text.replace("cd /opt/switchyard", f"cd {place}")


def registering(text: str, page: str) -> str:
    """Several pages have fleets of one name; nothing answers at their addresses, which ours says at once."""
    text = re.sub(r'"name": "([\w.-]+)", "protocol"', rf'"name": "{page}-\1", "protocol"', text)
    return re.sub(r"http://10\.0\.0\.1:\d+", "http://127.0.0.1:9", text)


SAMPLES = PROJECT / "tests" / "controlplane" / "importing" / "samples"


def configurations(place: Path) -> None:
    """What docs/import.md reads."""
    (place / "config.yaml").write_bytes((SAMPLES / "litellm.yaml").read_bytes())
    nginx = place / "etc-nginx"
    nginx.mkdir()
    for name in ("nginx.conf", "conf.d"):
        (nginx / name).symlink_to(SAMPLES / "nginx" / name)
