"""Environment variables that ``up`` sets before Django reads its settings.

No Django in here: ``manage.py`` calls :func:`prepare` first thing when its command is ``up``.
"""

import argparse
import hashlib
import os
import tempfile
from pathlib import Path

from controlplane.supervision.options import UpOptions, add_arguments, from_parsed

PROJECT = Path(__file__).resolve().parent.parent.parent
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
    for name, value in wanted(from_parsed(vars(parsed))).items():
        os.environ.setdefault(name, value)


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
