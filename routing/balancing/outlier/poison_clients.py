"""Poison clients and requests: whether a failure is the fault of the replica or of the client's request.

Theory. A request that no replica can serve (it crashes them, or asks for what none has) fails everywhere. A
client that repeats it would get one replica after the other ejected. So a row of failures ejects only where
it says something about the replica:

- A client is a **suspect** if its requests failed at two replicas or more and did not succeed since. Failures
  of suspects are left out of a row, however many they are. The rest must be a row by itself.
- *Two clients* are left that have not failed elsewhere lately, or the connection was refused, or nobody knows
  who sent the request: the row counts at once.
- Otherwise the failures are *one client's* different requests, or those of clients that *fail elsewhere too*,
  whether or not they also succeed. The row counts. But if a part of the other replicas' responses are
  failures too, the row must be longer: as unlikely by chance as five failures where a tenth of all fail.
  Replicas that have such a row themselves are left out here, so that of two broken replicas one does not
  excuse the other.
- *One client's one request*, again and again: the row counts once that very request succeeded elsewhere. If
  it was sent to no other replica, twice as many failures count. It will then be sent to another, and shows.

Suspects are known from failures alone, which are rare. Whether a suspect succeeds elsewhere (two replicas may
be broken at once) is looked at only while a row is held against the client: the pool then monitors the next
requests, and asks who sent them.

A client is its key, where keys are required, else its address. Memory is bounded: a fixed number of clients
and requests, those that failed last. A request that succeeds spends no time on any of this.

Failure mode: a row of more clients than are told apart, each of which fails everywhere, counts as several.

Source: our own. Envoy and nginx count each failure against the replica.
"""

from collections import OrderedDict
from math import ceil, inf, log

from routing.balancing.replica.client_source import UNKNOWN, FailureRun

MOST = 256
"""Clients and requests that are remembered."""
MEMORY_S = 300.0
"""After which a failure elsewhere no longer makes a suspect: as long as the longest ejection."""
TRUST_S = 30.0
"""How long a success clears a client, or a request, of suspicion."""
ONE_REQUEST = 2
"""How many times the length, of a row that is one request again and again."""
BACKGROUND = 0.1
"""Share of failures up to which a row of the usual length is long enough."""


class ClientRecord:
    """What is known of one client or one request."""

    __slots__ = (
        "failed_at",
        "failed_before_at",
        "failed_last",
        "failed_last_at",
        "good_at",
        "good_replica",
        "other_failed_at",
        "other_good_at",
        "replica",
    )

    def __init__(self) -> None:
        self.replica = 0
        """The one where it failed first."""
        self.failed_at = -inf
        """When it failed there last."""
        self.other_failed_at = -inf
        """When it failed at another one last."""
        self.failed_last = 0
        """Where it failed last, whatever it has succeeded with since."""
        self.failed_last_at = -inf
        self.failed_before_at = -inf
        """When it failed at another one than that last."""
        self.good_at = -inf
        """When it was seen to succeed last."""
        self.good_replica = 0
        """Where."""
        self.other_good_at = -inf
        """When it was seen to succeed at another one last."""


class PoisonClients:
    """Clients and requests of one fleet that have failed. Both are named by numbers, and so are replicas."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: OrderedDict[int, ClientRecord] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def knows(self, who: int) -> bool:
        """Whether this client or request has failed."""
        return who in self._known

    def failed(self, who: int, replica: int, now: float) -> bool:
        """It has failed at this replica. Returns whether that is news."""
        record = self._record(who)
        if replica != record.failed_last:
            record.failed_last, record.failed_before_at = replica, record.failed_last_at
        record.failed_last_at = now
        if now - record.failed_at > MEMORY_S or record.good_at > max(
            record.failed_at, record.other_failed_at
        ):
            # A new beginning: what it failed at before it was seen to succeed is the replicas' fault.
            record.replica, record.failed_at, record.other_failed_at = replica, now, -inf
            return True
        if replica == record.replica:
            record.failed_at = max(record.failed_at, now)
            return False
        is_new = now - record.other_failed_at > MEMORY_S / 2
        record.other_failed_at = max(record.other_failed_at, now)
        return is_new

    def succeeded(self, who: int, replica: int, now: float) -> bool:
        """It has succeeded at this replica. Returns whether that is news. Nothing is kept of one that has not
        failed."""
        record = self._known.get(who)
        if record is None:
            return False
        is_new = now - record.good_at > TRUST_S / 2 or replica != record.good_replica
        if replica != record.good_replica:
            record.good_replica, record.other_good_at = replica, record.good_at
        record.good_at = max(record.good_at, now)
        return is_new

    def is_suspect(self, who: int, now: float) -> bool:
        """Whether it failed at two replicas or more, and did not succeed since."""
        record = self._known.get(who)
        if record is None or now - record.good_at < TRUST_S:
            return False
        first, other = record.failed_at, record.other_failed_at
        return min(first, other) > max(record.good_at, now - MEMORY_S)

    def fails_elsewhere(self, who: int, replica: int, now: float) -> bool:
        """Whether it failed lately at another replica than this one, whether or not it also succeeded."""
        record = self._known.get(who)
        if record is None:
            return False
        at = record.failed_last_at if record.failed_last != replica else record.failed_before_at
        return now - at < MEMORY_S

    def is_good(self, who: int, now: float, except_at: int = 0) -> bool:
        """Whether it succeeded lately. ``except_at``: only at another replica than this one."""
        record = self._known.get(who)
        if record is None:
            return False
        at = record.good_at if record.good_replica != except_at else record.other_good_at
        return now - at < TRUST_S

    def excuse(
        self, failure_run: FailureRun, replica: int, limit: int, others_fail: float, now: float
    ) -> str:
        """Why a row of failures at a replica is not its fault, in words; empty: it is.

        ``limit``: failures in a row that eject. ``others_fail``: share of failures among the responses of the
        pool's other replicas, 0 to 1.
        """
        clients = failure_run.clients
        others = [who for who in clients if not self.is_suspect(who, now)]
        if not others:
            if len(clients) > 1:
                return "all from clients that fail elsewhere too"
            return "all from a client that fails elsewhere too"
        length = sum([clients[who].failures for who in others])
        if length < limit:
            return "too many of them from clients that fail elsewhere too"
        if UNKNOWN in others or sum(not self.fails_elsewhere(who, replica, now) for who in others) > 1:
            return ""
        if len(others) > 1:
            is_telling = length >= telling_length(limit, others_fail)
            return (
                "" if is_telling else "from clients that fail elsewhere too, and other replicas fail as well"
            )
        only = clients[others[0]]
        if not only.is_varied and not self.is_good(only.request, now):
            if self.is_suspect(only.request, now):
                return "all of them one request, which fails elsewhere too"
            if only.failures < ONE_REQUEST * limit:
                return "all of them one request"
        if only.failures < telling_length(limit, others_fail):
            return "all from one client, and other replicas fail as well"
        return ""

    def _record(self, who: int) -> ClientRecord:
        known = self._known
        record = known.get(who)
        if record is None:
            record = known[who] = ClientRecord()
            if len(known) > MOST:
                known.popitem(last=False)
        else:
            known.move_to_end(who)
        return record


def telling_length(limit: int, others_fail: float) -> float:
    """How long a row must be to be as unlikely by chance as ``limit`` failures where a tenth of all fail."""
    if others_fail <= BACKGROUND:
        return limit
    if others_fail >= 1.0:
        return inf
    return ceil(limit * log(BACKGROUND) / log(others_fail))
