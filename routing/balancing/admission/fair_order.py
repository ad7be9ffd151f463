"""Fair queueing: who is next of the requests of one priority class, fair between clients by work.

Theory. Start-time fair queueing. Each client that waits has a *start tag*; the least is next. Serving a
request moves its client's tag on by the request's work. The class's *virtual time* is the tag that was served
last, and a client of which nothing waited begins there: what it did not ask for earlier it has not saved up,
and what others have asked for meanwhile it need not wait for. So while two clients wait, what they get
differs by no more than one request of each (Goyal et al., theorem 1), however many each has waiting. A
client that asks for less than its share waits for about one slot. Nothing is lost: a slot that one client
does not use is the others'.

Among equals, and within a client, the older request is first: with one client this is a plain queue. A
request that leaves without being served is not charged. One that lets others pass, because what is free is
of no use to it, keeps its client's tag, and the others of that client are asked as if it had been served.

Sources: Goyal, Vin and Cheng, "Start-time fair queueing" (SIGCOMM 1996 §2). By tokens, as in "Fairness in
serving large language models" (Sheng et al., OSDI 2024), which charges them as they come; here the estimate
is charged when the request is served. Failure mode: whoever has many names has as many shares.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import count

from routing.balancing.admission.start_tags import FLOWS, StartTags
from routing.balancing.admission.ticket import Ticket

_Place = tuple[float, float, int, "Flow"]
"""Tag, time of coming, number, and whose it is. The number tells any two apart."""


class Flow:
    """One client of which requests wait."""

    __slots__ = ("client", "end", "number", "start", "tickets", "turn", "work")

    def __init__(self, client: int, start: float, number: int) -> None:
        self.client = client
        self.start = start
        """Its tag."""
        self.number = number
        self.tickets: list[Ticket] = []
        """Oldest first."""
        self.work = 0.0
        """Of all of them."""
        self.turn: _Place
        """Its place among those that are first."""
        self.end: _Place
        """Its place among those that are last."""


class FairOrder:
    """One class. Each change and each look at the first takes a number of comparisons that grows with the
    logarithm of how many wait."""

    def __init__(self, tags: StartTags) -> None:
        self.virtual_time = 0.0
        self.tags = tags
        self._flows: dict[int, Flow] = {}
        self._turns: list[_Place] = []
        self._ends: list[_Place] = []
        self._numbers = count()

    def catch_up(self, virtual_time: float) -> None:
        """Another worker is so far."""
        self.virtual_time = max(self.virtual_time, virtual_time)

    @property
    def clients(self) -> int:
        """How many clients wait."""
        return len(self._flows)

    def waiting(self, client: int) -> int:
        """How many requests of one client wait."""
        flow = self._flows.get(client)
        return len(flow.tickets) if flow else 0

    def join(self, ticket: Ticket) -> None:
        flow = self._flows.get(ticket.client)
        if flow is None:
            start = max(self.virtual_time, self.tags.of(ticket.client % FLOWS))
            flow = self._flows[ticket.client] = Flow(ticket.client, start, next(self._numbers))
        else:
            self._take_out(flow)
        insort(flow.tickets, ticket)
        flow.work += ticket.charge
        self._put_in(flow)

    def leave(self, ticket: Ticket, served: bool) -> None:
        """One that is here leaves. ``served``: it has a slot, which its client is charged for."""
        flow = self._flows[ticket.client]
        self._take_out(flow)
        if served:
            self.virtual_time = max(self.virtual_time, flow.start)
            flow.start += ticket.charge
            self.tags.advance(flow.client % FLOWS, flow.start)
        at = bisect_left(flow.tickets, ticket)
        while flow.tickets[at] is not ticket:
            at += 1
        del flow.tickets[at]
        flow.work -= ticket.charge
        if flow.tickets:
            self._put_in(flow)
        else:
            del self._flows[ticket.client]

    def _put_in(self, flow: Flow) -> None:
        start, tickets = flow.start, flow.tickets
        flow.turn = (start, tickets[0].since, flow.number, flow)
        flow.end = (start + flow.work, tickets[-1].since, flow.number, flow)
        insort(self._turns, flow.turn)
        insort(self._ends, flow.end)

    def _take_out(self, flow: Flow) -> None:
        del self._turns[bisect_left(self._turns, flow.turn)]
        del self._ends[bisect_left(self._ends, flow.end)]

    @property
    def first(self) -> Ticket | None:
        """Who is served next."""
        turns, tags = self._turns, self.tags
        while turns:
            flow = turns[0][3]
            tag = tags.of(flow.client % FLOWS)
            if tag <= flow.start:
                ticket = flow.tickets[0]
                ticket.start = flow.start
                return ticket
            # Another worker has served the same client.
            self._take_out(flow)
            flow.start = tag
            self._put_in(flow)
        return None

    @property
    def last(self) -> Ticket | None:
        """Who would be served last, as far as is known."""
        return self._ends[-1][3].tickets[-1] if self._ends else None

    def would_be_before_last(self, ticket: Ticket) -> bool:
        """Whether one that is not here would be served before :attr:`last`."""
        if not self._ends:
            return False
        end, _, _, last = self._ends[-1]
        flow = self._flows.get(ticket.client)
        if flow is None:
            start = max(self.virtual_time, self.tags.of(ticket.client % FLOWS))
            return start + ticket.charge < end
        return flow is not last and flow.start + flow.work + ticket.charge < end

    @property
    def eldest(self) -> float:
        """Since when the one waits that has waited longest; 0: nobody waits."""
        return min((flow.tickets[0].since for flow in self._flows.values()), default=0.0)

    def __iter__(self) -> Iterator[Ticket]:
        """In the order of service, which may change meanwhile: some leave, some come."""
        while (ticket := self.first) is not None:
            yield ticket
            if ticket.here:
                yield from self._behind(ticket)
                return

    def _behind(self, passed: Ticket) -> Iterator[Ticket]:
        """Those that are asked after one that goes on waiting, each with the tag that it would have had."""
        turns, looked_at = self._turns.copy(), 0
        ahead: list[tuple[float, float, int, Ticket, Iterator[Ticket]]] = []
        while ahead or looked_at < len(turns):
            if looked_at < len(turns) and (not ahead or turns[looked_at][:3] < ahead[0][:3]):
                start, _, number, flow = turns[looked_at]
                looked_at += 1
                others = iter(flow.tickets.copy())
                ticket = next(others, None)
                if ticket is None:
                    continue
            else:
                start, _, number, ticket, others = heappop(ahead)
            if ticket.here and ticket is not passed:
                ticket.start = start
                yield ticket
            following = next(others, None)
            if following is not None:
                heappush(ahead, (start + ticket.charge, following.since, number, following, others))
