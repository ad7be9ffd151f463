"""``switchyard import nginx FILE`` and ``switchyard import litellm FILE``: import as a fleet file."""

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import get_args

from controlplane.importing import litellm, nginx
from controlplane.importing.model import Draft, NotImportable
from controlplane.importing.writer import fleet_file_text, report
from routing.contract.table import ApiProtocol

_READERS: Mapping[str, Callable[[Namespace], Draft]] = {
    "nginx": lambda options: nginx.read(options.file, options.protocol),
    "litellm": lambda options: litellm.read(options.file),
}


def main(arguments: list[str], prog: str = "switchyard import") -> int:
    """Exit status: 0 when something was carried over, 1 after one sentence when nothing was, 2 on usage."""
    options = _parser(prog).parse_args(arguments)
    try:
        draft = _READERS[options.format](options)
        try:
            text = fleet_file_text(draft)
        except NotImportable:
            # What was left behind says why nothing remains.
            if draft.dropped:
                print(report(draft), file=sys.stderr)
            raise
        _give(text, options)
    except NotImportable as error:
        print(error, file=sys.stderr)
        return 1
    print(report(draft), file=sys.stderr)
    return 0


def _parser(prog: str) -> ArgumentParser:
    parser = ArgumentParser(
        prog=prog,
        description="Writes a fleet file from the configuration of another balancer. What could not be "
        "carried over is listed on standard error with its line. See docs/import.md.",
    )
    formats = parser.add_subparsers(dest="format", required=True, metavar="FORMAT")
    for name, words in (
        ("nginx", "an nginx.conf, or a file that one includes"),
        ("litellm", "a LiteLLM proxy's config.yaml"),
    ):
        one = formats.add_parser(name, help=words, description=f"Reads {words}.")
        one.add_argument("file", type=Path, metavar="FILE")
        one.add_argument(
            "-o", "--output", type=Path, metavar="FLEETS", help="write here; else standard output"
        )
        one.add_argument(
            "--force", action="store_true", help="replace the file named by -o when there is one"
        )
        if name == "nginx":
            one.add_argument(
                "--protocol",
                choices=get_args(ApiProtocol),
                default="",
                help="API that clients use, for all fleets; else guessed from location paths",
            )
    return parser


def _give(text: str, options: Namespace) -> None:
    """Whole or not at all. Raises NotImportable when the output cannot be written."""
    output: Path | None = options.output
    if output is None:
        sys.stdout.write(text)
        return
    if output.exists() and not options.force:
        raise NotImportable(f"{output} exists and was left as it is: name another file, or add --force")
    beside = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        beside.write_text(text, "utf-8")
        beside.replace(output)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise NotImportable(f"{output} cannot be written: {error.strerror}") from None
