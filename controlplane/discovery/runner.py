"""Runner of discovery: follows every source, in a process that leads, from a thread beside the conductor's.

One event loop waits for all sources; one more thread writes, one step after the other. It follows only while
the conductor of its process leads, so there is one follower. Where two overlap for a moment, the newer one's
fencing token stops the older one at its next write (:mod:`.changes`).
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping

import redis
from django.db import Error as DatabaseError
from django.db import close_old_connections

from controlplane.daemon_threads import SerialThread
from controlplane.datastores import redis as datastore
from controlplane.discovery import bell, last_lists, trials
from controlplane.discovery.changes import NotFollowing
from controlplane.discovery.fleet_view import OwnRow
from controlplane.discovery.following import Answer, Following
from controlplane.discovery.kinds import registry
from controlplane.discovery.kinds.kind import SourceError, SourceKind
from controlplane.discovery.listing import Plan
from controlplane.discovery.reconciler import RECHECK_S
from controlplane.discovery.trials import SourceTrial, TrialListing
from controlplane.models import DiscoverySource, SourceState
from controlplane.observability import metrics
from controlplane.observability.outages import Outages
from routing.contract.fleet_file.sources import source_rules

REVIEW_S = 0.5
"""How often it is looked which sources there are, and whether this process leads."""
LIST_WITHIN_S = 30.0
LEAST_PAUSE_S = 0.05
CHANGES_AGAIN_S = 1.0
"""A source that can no longer tell of changes is asked again after this."""
BEGIN_ANEW_S = 5.0
END_WITHIN_S = 1.0
LISTEN_AGAIN_S = 1.0
MOST_TRIALS = 8
"""At a time; more are not answered."""

logger = logging.getLogger(__name__)

SourceKey = tuple[int, int]
"""Source and version of its settings."""


class DiscoveryRunner:
    def __init__(
        self,
        client: "redis.Redis",
        leads: Callable[[], bool],
        build: Callable[[DiscoverySource], SourceKind] = registry.build,
    ) -> None:
        self._client = client
        self._leads = leads
        self._build = build
        self._outages = Outages(logger)
        self._followed: dict[str, _OneSource] = {}
        """By the source's uid."""
        self._trials: set[asyncio.Task[None]] = set()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="discovery", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Waits for it, END_WITHIN_S at most."""
        self._stopping.set()
        self._thread.join(END_WITHIN_S)

    def _run(self) -> None:
        asyncio.run(self._follow_all())

    async def _follow_all(self) -> None:
        write = SerialThread("discovery-writes")
        following: dict[SourceKey, asyncio.Task[None]] = {}
        listening = asyncio.create_task(self._listen())
        while not self._stopping.is_set():
            try:
                rows = await write(_sources) if self._leads() else []
            except DatabaseError as error:
                self._outages.away("the database", error)
            except Exception:
                logger.exception("looking which sources there are failed; it is tried again")
            else:
                self._outages.back("the database")
                changed = self._adjust(following, {(row.pk, row.edit_version): row for row in rows}, write)
                if changed and rows:
                    await write(self._forget_others, [str(row.uid) for row in rows])
            await asyncio.sleep(REVIEW_S)
        listening.cancel()
        for task in following.values():
            task.cancel()
        if following:
            await asyncio.wait(following.values(), timeout=END_WITHIN_S / 2)

    def _adjust(
        self,
        following: dict[SourceKey, asyncio.Task[None]],
        wanted: dict[SourceKey, DiscoverySource],
        write: SerialThread,
    ) -> bool:
        """Whether others are followed than before."""
        before = set(following)
        for key, task in list(following.items()):
            if key not in wanted or task.done():
                task.cancel()
                del following[key]
        for key in wanted.keys() - following.keys():
            following[key] = asyncio.create_task(self._follow(wanted[key], write))
        metrics.SOURCES_FOLLOWED.set(len(following))
        return following.keys() != before

    def _forget_others(self, uids: list[str]) -> None:
        """What is told of sources that were deleted."""
        try:
            last_lists.keep_only(self._client, uids)
        except redis.RedisError as error:
            logger.debug("what is told of deleted sources stays: %s", error)

    async def _follow(self, source: DiscoverySource, write: SerialThread) -> None:
        kind = self._build(source)
        one = _OneSource(Following(source, self._client), kind, write, self._outages)
        telling = asyncio.create_task(one.apply_changes())
        self._followed[str(source.uid)] = one
        try:
            await one.resync()
        except NotFollowing:
            logger.info("source %s is followed elsewhere, or is gone", source)
        except Exception:
            logger.exception("following source %s failed; it begins anew", source)
            await asyncio.sleep(BEGIN_ANEW_S)
        finally:
            telling.cancel()
            if self._followed.get(str(source.uid)) is one:
                del self._followed[str(source.uid)]
            await kind.close()

    async def _listen(self) -> None:
        while True:
            client = datastore.async_client()
            try:
                async with client.pubsub(ignore_subscribe_messages=True) as subscription:
                    await subscription.subscribe(bell.CHANNEL)
                    async for message in subscription.listen():
                        if ring := bell.heard(message["data"]):
                            await self._rung(ring)
            except Exception as error:  # sources are listed on their timers
                logger.debug("the bell of discovery is not heard: %s", error)
            finally:
                await client.aclose()
            await asyncio.sleep(LISTEN_AGAIN_S)

    async def _rung(self, ring: bell.Ring) -> None:
        if ring.kind == "trial":
            if self._leads() and len(self._trials) < MOST_TRIALS:
                task = asyncio.create_task(self._try(ring.of))
                self._trials.add(task)
                task.add_done_callback(self._trials.discard)
        elif (one := self._followed.get(ring.of)) is not None:
            await one.list_again(retry=ring.kind == "resync")

    async def _try(self, id_: str) -> None:
        try:
            wanted = await asyncio.to_thread(trials.take, self._client, id_)
            if wanted is not None:
                found = await self._looked(wanted)
                await asyncio.to_thread(trials.answer, self._client, id_, found)
        except redis.RedisError as error:
            logger.debug("a trial of a source was not answered: %s", error)

    async def _looked(self, wanted: SourceTrial) -> TrialListing:
        kind = self._build(DiscoverySource(kind=wanted.kind, settings=wanted.settings))
        try:
            answer = await asked(kind, {}, trials.WITHIN_S)
        finally:
            await kind.close()
        took_s = round(answer.took_s, 4)
        if answer.listing is None:
            return TrialListing(took_s, answer.error)
        return TrialListing(
            took_s,
            entries=list(answer.listing.entries.values()),
            leaving=sorted(answer.listing.leaving),
            note=answer.listing.note,
        )


def _sources() -> list[DiscoverySource]:
    close_old_connections()
    rows = DiscoverySource.objects.select_related("fleet").exclude(status__state=SourceState.PAUSED)
    return list(rows)


async def asked(kind: SourceKind, own: Mapping[str, OwnRow], within_s: float) -> Answer:
    """What a source answers; whatever goes wrong is said in words."""
    began = time.monotonic()
    try:
        async with asyncio.timeout(within_s):
            listing = await kind.read(own)
    except SourceError as error:
        return Answer(None, str(error), time.monotonic() - began)
    except TimeoutError:
        return Answer(None, f"it did not answer within {within_s:.0f} s", within_s)
    except Exception as error:
        logger.exception("listing a source failed")
        return Answer(None, f"it failed: {type(error).__name__}", time.monotonic() - began)
    return Answer(listing, took_s=time.monotonic() - began)


class _OneSource:
    """Lists a source on a timer, and applies what it tells of meanwhile."""

    def __init__(self, following: Following, kind: SourceKind, write: SerialThread, outages: Outages) -> None:
        self._following = following
        self._kind = kind
        self._write = write
        self._outages = outages
        self._again = asyncio.Event()
        self._needs = f"what source {following.source} needs"
        self._resync_s: float = source_rules.effective(following.source.settings)["resync_s"]

    async def resync(self) -> None:
        """Raises NotFollowing."""
        while True:
            answer = await self._listed()
            plan = Plan(hurry=True) if answer is None else await self._step(answer)
            # What rings often is not listed all the time.
            took_s = answer.took_s if answer else 0.0
            await asyncio.sleep(min(max(LEAST_PAUSE_S, 3 * took_s), RECHECK_S))
            wait_s = min(RECHECK_S, self._resync_s) if plan.hurry else self._resync_s
            try:
                async with asyncio.timeout(wait_s):
                    await self._again.wait()
            except TimeoutError:
                continue
            finally:
                self._again.clear()

    async def list_again(self, *, retry: bool) -> None:
        """Now. ``retry``: what it refused as well."""
        if retry:
            await self._write(self._following.retry_refused)
        self._again.set()

    async def apply_changes(self) -> None:
        while True:
            try:
                async for listing in self._kind.changes():
                    if listing is None:
                        self._again.set()
                        continue
                    plan = await self._step(Answer(listing))
                    if plan.hurry:
                        self._again.set()
            except NotFollowing:
                return
            except Exception as error:  # its list says what is wrong
                logger.debug("source %s tells of no changes: %s", self._following.source, error)
            await asyncio.sleep(CHANGES_AGAIN_S)

    async def _listed(self) -> Answer | None:
        """``None``: what is needed to ask is away. Raises NotFollowing."""
        try:
            own = await self._write(_own, self._following) if self._kind.wants_own else {}
        except DatabaseError as error:
            self._outages.away(self._needs, error)
            return None
        answer = await asked(self._kind, own, LIST_WITHIN_S)
        metrics.SOURCE_LISTS.labels("failed" if answer.listing is None else "listed").inc()
        return answer

    async def _step(self, answer: Answer) -> Plan:
        """Raises NotFollowing. Of what is merely away the log says so once, and the next step tries again."""
        try:
            plan = await self._write(_step, self._following, answer)
        except (DatabaseError, redis.RedisError) as error:
            self._outages.away(self._needs, error)
            return Plan(hurry=True)
        self._outages.back(self._needs)
        return plan


def _own(following: Following) -> Mapping[str, OwnRow]:
    close_old_connections()
    return following.own()


def _step(following: Following, answer: Answer) -> Plan:
    close_old_connections()
    return following.step(answer)
