"""The modules of the request path that may run as C extensions, and where a worker finds them.

``bootstrap/compiling.py`` has mypyc make them, from the very source files that would run otherwise. They lie
outside of the source tree, in a folder that is named by a digest of all that goes into them
(:func:`digest`). Whoever edits a source, or takes another Python, has a folder of another name, so what is
there is never older than the source. Without that folder, or with ``SWITCHYARD_COMPILED=0``, the Python
sources run.

Workers alone use them (:func:`use`): they serve the requests. A compiled class takes no attributes but its
own, and types are checked at run time, so tests and the simulator run from source.
"""

import os
import platform
import sys
from collections.abc import Sequence
from hashlib import sha256
from importlib.abc import MetaPathFinder
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

MODULES = (
    "routing.balancing.attempt.attempt",
    "routing.balancing.attempt.predicted_attempt",
    "routing.balancing.attempt.stated_work",
    "routing.balancing.attempt.tunnel",
    "routing.balancing.learning.fleet_speed",
    "routing.balancing.pool.pool",
    "routing.balancing.replica.state",
    "routing.balancing.strategies.least_expected_work",
    "routing.contract.sketch",
    "routing.http.chunked",
    "routing.http.client_connection",
    "routing.http.client_lifecycle",
    "routing.http.disconnect_watcher",
    "routing.http.head_cache",
    "routing.http.hop_by_hop_headers",
    "routing.http.known_heads",
    "routing.http.read_pause",
    "routing.http.request_head",
    "routing.http.request_parser",
    "routing.http.response_head",
    "routing.http.response_template",
    "routing.http.stream_heads",
    "routing.http.timeout_sweeper",
    "routing.http.upstream_connection",
    "routing.http.upstream_pool",
    "routing.http.write_batch",
    "routing.protocols.openai",
    "routing.protocols.stream_end",
    "routing.protocols.stream_start",
    "routing.proxy.auth.client_keys",
    "routing.proxy.exchange.authenticated_exchange",
    "routing.proxy.exchange.broken_stream",
    "routing.proxy.exchange.continuation.continuable_response",
    "routing.proxy.exchange.exchange",
    "routing.proxy.exchange.failed_attempt",
    "routing.proxy.exchange.held_beginning",
    "routing.proxy.exchange.local_reply",
    "routing.proxy.exchange.response_headers",
    "routing.proxy.exchange.retry_policy",
    "routing.proxy.exchange.route",
    "routing.proxy.exchange.router",
    "routing.proxy.exchange.sent_tail",
    "routing.proxy.exchange.state",
    "routing.proxy.exchange.streaming_response",
    "routing.proxy.exchange.token_measures",
    "routing.proxy.exchange.upstream_exchange",
    "routing.proxy.exchange.upstream_request",
    "routing.proxy.limits.connection_limit",
    "routing.proxy.limits.held_bytes",
    "routing.proxy.limits.unread_responses",
    "routing.proxy.tracing.tracer",
    "routing.proxy.upstream_endpoint",
    "routing.shared.fleet_totals",
    "routing.shared.key_quota",
)
"""What a usual request or event passes, and what derives from its classes or is between them: the bases of a
compiled class are compiled, and so are all classes that derive from it."""
GROUP = "switchyard_compiled"
"""Name of the library that has all of them."""
LIBRARY = f"{GROUP}__mypyc"
OFF = "SWITCHYARD_COMPILED"
"""Variable of the environment; ``0``: run from source."""
ROOT = Path(__file__).resolve().parent.parent
BUILDS = ROOT / "build" / "compiled"
_COMPLETE = "complete"
"""File of a folder that was made to its end."""


def digest(root: Path = ROOT) -> str:
    """Of the Python, of the machine, and of every source that the compiler may have read: types and constants
    of other modules go into the code of these."""
    made_for = (str(sys.version_info[:2]), platform.machine(), EXTENSION_SUFFIXES[0])
    found = sha256("\0".join((*made_for, *MODULES)).encode())
    for path in sorted(root.glob("routing/**/*.py")):
        text = path.read_bytes()
        found.update(f"\0{path.relative_to(root)}\0{len(text)}\0".encode())
        found.update(text)
    return found.hexdigest()[:32]


def folder(builds: Path = BUILDS, root: Path = ROOT) -> Path:
    """Of the extensions of these sources, whether or not they are there."""
    return builds / digest(root)


def found(builds: Path = BUILDS, root: Path = ROOT) -> Path | None:
    """The same, if they are there and are to be used."""
    if os.environ.get(OFF) == "0" or not builds.is_dir():
        return None
    at = folder(builds, root)
    return at if is_complete(at) else None


def is_complete(at: Path) -> bool:
    return (at / _COMPLETE).exists()


def complete(at: Path) -> None:
    """Say that all is there."""
    (at / _COMPLETE).touch()


class _Finder(MetaPathFinder):
    """Finds the extensions in this folder."""

    def __init__(self, at: Path) -> None:
        self._at = at
        self._names = frozenset((*MODULES, LIBRARY))

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._names:
            return None
        file = str(self._at / (fullname.replace(".", "/") + EXTENSION_SUFFIXES[0]))
        return spec_from_file_location(fullname, file, loader=ExtensionFileLoader(fullname, file))


def use() -> bool:
    """From now on import the compiled modules, if there are any of these sources. Whether there are. To be
    called before any of them is imported."""
    at = found()
    if at is None:
        return False
    imported = sys.modules.keys() & set(MODULES)
    assert not imported, f"imported before: {sorted(imported)}"
    sys.meta_path.insert(0, _Finder(at))
    return True


def in_use() -> bool:
    return any(isinstance(finder, _Finder) for finder in sys.meta_path)
