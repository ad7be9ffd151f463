"""Environment variables that ``up`` sets before Django reads its settings.

No Django in here: ``manage.py`` calls :func:`prepare` first thing when its command is ``up``.
"""

import argparse
import hashlib
import os
import tempfile
from pathlib import Path

from controlplane.supervision.options import UpOptions, add_arguments, from_parsed
from routing.contract.address_rules import OWN_PORTS

PROJECT = Path(__file__).resolve().parent.parent.parent
METRICS_LISTENERS = 4
"""Of dashboard, Celery worker, beat and conductor, one port after the other."""
LONGEST_SOCKET_PATH = 90
"""The kernel allows 107 bytes; a deep data folder gets its socket in the temporary folder instead."""


def prepare(arguments: list[str]) -> None:
    """Set what the flags and the data folder imply; variables that the caller has set stay."""
    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False)
    add_arguments(parser)
    try:
        parsed, _ = parser.parse_known_args(arguments)
    except (argparse.ArgumentError, argparse.ArgumentTypeError):
        return  # the command's own parser will say it in full
    options = from_parsed(vars(parsed))
    for name, value in wanted(options).items():
        os.environ.setdefault(name, value)
    named = os.environ.get(OWN_PORTS)
    os.environ[OWN_PORTS] = ",".join([*_own_ports(options), *([named] if named else [])])


def _own_ports(options: UpOptions) -> list[str]:
    """Where the processes listen: no replica can be there, and each of them is told of all."""
    host = f"[{options.host}]" if ":" in options.host else options.host
    metrics = options.first_metrics_port
    ports = (options.proxy_port, options.admin_port, f"{metrics}-{metrics + METRICS_LISTENERS - 1}")
    return [f"{host}:{options.port}", *(f"127.0.0.1:{port}" for port in ports)]


def wanted(options: UpOptions) -> dict[str, str]:
    """The variables that a start with these options needs."""
    if options.data_dir is not None:
        os.environ["SWITCHYARD_DATA_DIR"] = str(options.data_dir.expanduser().resolve())
    data = Path(os.environ.get("SWITCHYARD_DATA_DIR") or PROJECT / "var")
    variables = {"SWITCHYARD_PROXY_URL": options.proxy_url, "SWITCHYARD_DATA_DIR": str(data)}
    if not os.environ.get("SWITCHYARD_REDIS_URL"):
        variables["SWITCHYARD_REDIS_URL"] = f"unix://{socket_path(data)}?db=0"
        variables[OWN_REDIS] = "1"
    return variables


OWN_REDIS = "SWITCHYARD_OWN_REDIS"
"""Set by :func:`prepare` where no Redis was named, so that ``up`` runs one itself."""


def socket_path(data: Path) -> Path:
    """A short path for the embedded Redis's socket; the same for the same data folder."""
    path = data / "redis" / "redis.sock"
    if len(os.fsencode(path)) <= LONGEST_SOCKET_PATH:
        return path
    digest = hashlib.sha256(os.fsencode(data)).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"switchyard-{os.getuid()}-{digest}" / "redis.sock"
