"""Fleet file watcher (hot reload) of a standalone proxy: the master reads the file and makes the tables.

A file with errors changes nothing: the last good table stays, and the log says what is wrong, with line and
column. Unless the built-in prober runs, every replica is assumed to be ready.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Iterable
from pathlib import Path

from msgspec.structs import replace

from routing.balancing import strategies
from routing.contract import input_file
from routing.contract.client_keys import new_salt
from routing.contract.fleet_compiler import compile_fleet_file
from routing.contract.fleet_file import (
    ExistingState,
    FileProblem,
    FleetFile,
    FleetFileError,
    StrategyRules,
    load,
    yaml_document,
)
from routing.contract.fleet_file.parser import MAX_BYTES
from routing.contract.startup import expected_duration, usual_duration
from routing.contract.table import FleetSnapshot, Manifest, unserved_adapters
from routing.ipc.control_channel import Tables
from routing.master.standalone import file_keys
from routing.master.standalone.file_keys import FileKeys
from routing.master.standalone.prober import AnswerCounts, Prober, ProbeStatus
from routing.tls.file_stamp import file_stamp

log = logging.getLogger(__name__)

POLL_EVERY_S = 0.5
_MOST_NAMED = 10
_NO_SOURCES = (
    "are followed by a control plane only: a proxy that runs from the file alone has the replicas that it "
    "lists; list them in replicas, or remove the sources"
)
EPOCH = 1
"""Always the same: versions last as long as the master, and its workers start after it."""

SALT = new_salt()
"""The secret of client keys' hashes. Both last as long as the master."""


def read(path: Path) -> tuple[FleetFile, FileKeys]:
    """The file, and its client keys for a manifest. Raises FleetFileError with every problem, or OSError."""
    rules = StrategyRules(strategies.names(), strategies.build, strategies.why_not)
    file = load(path, strategies=rules, existing=ExistingState(refused_of_fleets={"sources": _NO_SOURCES}))
    keys, problems = file_keys.hash_keys(file.client_keys, path.parent, SALT)
    if problems:
        document = yaml_document.read(input_file.read(path, MAX_BYTES).decode("utf-8-sig"))
        found = [
            FileProblem(
                *document.position_of(f"/client_keys/{index}/key"), f"client_keys[{index}].key", words
            )
            for index, words in problems
        ]
        raise FleetFileError(str(path), found)
    return file, keys


class FleetFileWatcher:
    """The table that a fleet file describes, kept up to date."""

    def __init__(self, path: Path, probing: bool) -> None:
        """Reads the file. Raises FleetFileError or OSError."""
        self._path = path
        self._stamp = file_stamp(path)
        self._file, self._keys = read(path)
        self._keys_required = _keys_required(self._file, before=False)
        self._probing = probing
        self._prober: Prober | None = None
        self._inherited_statuses: dict[tuple[str, str], ProbeStatus] = {}
        """By uid and URL."""
        self._manifest = Manifest(epoch=EPOCH, version=0)
        self._snapshots: dict[str, FleetSnapshot] = {}
        self._on_tables: Callable[[Tables], None] | None = None

    def begin(self, on_tables: Callable[[Tables], None], answered: AnswerCounts) -> None:
        """Call ``on_tables`` with the first table now, and with every newer one from now on."""
        self._on_tables = on_tables
        if self._probing:
            _, compiled = compile_fleet_file(self._file, epoch=EPOCH, version=1)
            specs = [spec for snapshot in compiled for spec in snapshot.replicas]
            found = {spec.uid: self._inherited_statuses.get((spec.uid, spec.url)) for spec in specs}
            known = {uid: status for uid, status in found.items() if status is not None}
            self._prober = Prober(self._publish, answered, random.Random(), known)
        self._publish()
        self._follow()
        self._warn()

    def restore_health(self, snapshots: Iterable[FleetSnapshot]) -> None:
        """Start the prober, if there is one, with the probe results of the master before this one."""
        specs = (spec for snapshot in snapshots for spec in snapshot.replicas)
        self._inherited_statuses = {
            (spec.uid, spec.url): ProbeStatus(spec.health, spec.has_passed) for spec in specs
        }

    def restore_keys_required(self, manifest: Manifest) -> None:
        """Go on requiring client keys as the master before this one did, unless the file says otherwise."""
        self._keys_required = _keys_required(self._file, before=bool(manifest.keys_required))

    async def run(self) -> None:
        """Watch the file until cancelled."""
        try:
            while True:
                await asyncio.sleep(POLL_EVERY_S)
                stamp = file_stamp(self._path)
                if stamp and stamp != self._stamp:
                    self._stamp = stamp
                    await self._reload()
        finally:
            if self._prober is not None:
                self._prober.stop()

    async def _reload(self) -> None:
        try:
            self._file, self._keys = await asyncio.to_thread(read, self._path)
        except FleetFileError as error:
            log.error("the fleet file has changed but cannot be used; the last good one stays:\n%s", error)
            return
        except OSError as error:
            log.error(
                "the fleet file has changed but cannot be read; the last good one stays: %s", error.strerror
            )
            return
        self._keys_required = _keys_required(self._file, before=self._keys_required)
        self._publish()
        self._follow()
        self._warn()
        log.info("the fleet file has changed: table %d", self._manifest.version)

    def _follow(self) -> None:
        if self._prober is not None:
            self._prober.follow(self._snapshots.values())

    def _warn(self) -> None:
        """Of client keys that are required although none is left, of fleets that expose everything although
        nobody has said so, and of adapters that no replica serves."""
        if self._keys_required and not self._keys.fleets and self._file.keys_required is None:
            log.warning(
                "client_keys lists no key any more, and requests go on needing one, so nobody is served: add "
                "a key; or write keys_required: false to serve without keys, true to keep it so after "
                "a restart"
            )
        names = [fleet.name for fleet in self._file.fleets if fleet.expose is None]
        if names:
            more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
            log.warning(
                "no expose in fleet %s%s: clients reach every path of the replicas' hosts, management paths "
                "included; write expose: inference, or all to keep it so",
                ", ".join(names[:_MOST_NAMED]),
                more,
            )

        for fleet in self._file.fleets:
            missing = unserved_adapters(fleet.adapters, (replica.adapters for replica in fleet.replicas))
            if missing:
                log.warning(
                    "no replica of fleet %s serves the adapter %s: requests for it are answered with 503; "
                    "add it to the adapters of a replica, or remove it from the fleet's",
                    fleet.name,
                    ", ".join(missing[:_MOST_NAMED]),
                )

    def _publish(self) -> None:
        """Compile the file, add the prober's results, and publish what has changed with a new version."""
        version = self._manifest.version + 1
        manifest, compiled = compile_fleet_file(self._file, epoch=EPOCH, version=version)
        snapshots = {snapshot.name: self._numbered(self._with_health(snapshot)) for snapshot in compiled}
        fleets = {name: snapshot.version for name, snapshot in snapshots.items()}
        manifest = replace(
            manifest,
            fleets=fleets,
            key_hashes=self._keys.fleets,
            keys_required=self._keys_required,
            key_limits=self._keys.limits,
            key_salt=SALT if self._keys.fleets else "",
        )
        if replace(manifest, version=self._manifest.version) == self._manifest:
            return
        self._manifest, self._snapshots = manifest, snapshots
        assert self._on_tables is not None
        self._on_tables(Tables(manifest=manifest, snapshots=list(snapshots.values())))

    def _with_health(self, snapshot: FleetSnapshot) -> FleetSnapshot:
        if self._prober is None:
            return snapshot
        statuses = [self._prober.status(spec.uid) for spec in snapshot.replicas]
        usual = usual_duration(status.startup_s for status in statuses)
        replicas = [
            replace(
                spec,
                health=status.health,
                health_source="probe",
                has_passed=status.has_passed,
                startup_s=expected_duration(status.startup_s, usual),
            )
            for spec, status in zip(snapshot.replicas, statuses, strict=True)
        ]
        return replace(snapshot, replicas=replicas)

    def _numbered(self, new: FleetSnapshot) -> FleetSnapshot:
        """The old snapshot if nothing has changed; with the old revision if only health has changed."""
        old = self._snapshots.get(new.name)
        if old is None:
            return new
        if replace(new, version=old.version, revision=old.revision) == old:
            return old
        if _without_health(new) == _without_health(old):
            return replace(new, revision=old.revision)
        return replace(new, revision=old.revision + 1)


def _keys_required(file: FleetFile, *, before: bool) -> bool:
    """Whether requests need a client key. Where the file does not say: while it lists any, and as it was
    ``before`` once it has listed some, so that taking out the last key opens nothing."""
    return file.keys_required if file.keys_required is not None else before or bool(file.client_keys)


def _without_health(snapshot: FleetSnapshot) -> FleetSnapshot:
    replicas = [replace(spec, health="ready", has_passed=True, startup_s=None) for spec in snapshot.replicas]
    return replace(snapshot, version=0, revision=0, replicas=replicas)
