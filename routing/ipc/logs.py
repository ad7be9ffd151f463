"""Logging of the proxy, on standard error. Requests are counted, not logged, unless --access-log is set."""

import logging
import sys

from routing.contract.log_format import Format, JsonLineFormatter, TextLineFormatter


def configure(level: str, process: str, form: Format = "text") -> None:
    """Log to stderr from ``level`` on, each line marked with the process it is from."""
    handler = logging.StreamHandler(sys.stderr)
    name = f"proxy/{process}"
    handler.setFormatter(
        JsonLineFormatter(name) if form == "json" else TextLineFormatter(name, with_logger=False)
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.captureWarnings(True)
