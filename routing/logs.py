"""Log lines of the proxy: plain text on stderr. Requests are counted, not logged."""

import logging
import sys
import time


class _Formatter(logging.Formatter):
    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"


def configure(level: str, process: str) -> None:
    """Log to stderr from ``level`` on, each line marked with the process it is from."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter(f"%(asctime)s %(levelname)s {process}: %(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
