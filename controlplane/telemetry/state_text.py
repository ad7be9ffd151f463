"""State text: a replica's admin state, health and ejection as one word, and the reasons under it. Pure.

The facts stay three separate fields of the frame; only what is *shown first* is folded, in the order in
which an operator would act: what he decided, then what probes saw, then what live traffic showed.
"""

from collections.abc import Collection, Mapping

from controlplane.probes.last_results import LastProbe
from controlplane.telemetry import durations, emergency_drain_text
from controlplane.telemetry.db_snapshot import AcceleratorPlacement, FleetRow, ReplicaRow
from controlplane.telemetry.frames import WINDOW_S, AcceleratorLive, DrainedAt
from controlplane.telemetry.merged_numbers import FleetNumbers, ReplicaNumbers
from controlplane.telemetry.queues import QueueNumbers
from routing.contract.accelerators import shown_bytes
from routing.contract.moving import stays_in_words


def eligible(row: ReplicaRow, numbers: ReplicaNumbers) -> bool:
    """Whether admin state, health and ejection all allow it, and some proxy can send to it: nobody drained it
    there, and its credential can be read."""
    allowed = row.admin_state == "active" and row.health == "ready" and not numbers.ejected_by
    return allowed and not numbers.drained_everywhere and not locked_out(numbers)


def locked_out(numbers: ReplicaNumbers) -> bool:
    """Whether no worker can read its credential."""
    return 0 < numbers.workers <= numbers.no_credential_at


def state(row: ReplicaRow, numbers: ReplicaNumbers) -> str:
    """``draining``, ``maintenance``, ``checking``, ``unready``, ``down``, ``ejected`` or ``ready``."""
    if row.admin_state != "active":
        return row.admin_state
    if numbers.drained_everywhere:
        return "draining"
    if row.health != "ready":
        return row.health
    if locked_out(numbers):
        return "unready"
    return "ejected" if numbers.ejected_by else "ready"


def why(
    row: ReplicaRow,
    numbers: ReplicaNumbers,
    probe: LastProbe | None,
    memory_short: str = "",
    when_asked: str = "",
    *,
    startup_s: float | None = None,
) -> str:
    """What keeps the replica out, or since when it is in; all facts that keep it out are named, and what
    its accelerators lack.

    ``when_asked``: of one at another site than the proxies, in words.
    ``startup_s``: how long its start is expected to take; ``None``: it does not start, or nobody knows.
    """
    parts = [
        part
        for part in (
            _admin(row, numbers),
            _emergency_drain(numbers),
            _health(row, numbers, probe, startup_s),
            no_credential(numbers) or None,
            _ejection(row, numbers),
            _weight(row),
        )
        if part is not None
    ]
    if not parts:
        parts = [f"for {durations.words(row.health_for_s)}", *([when_asked] if when_asked else [])]
    if in_doubt := doubt(numbers):
        parts.append(in_doubt)
    if memory_short:
        parts.append(memory_short)
    if probe is not None and _tells_more(row, numbers, probe):
        parts.append(f"probe: {probe.words}")
    return "; ".join(parts)


def queue_state(numbers: QueueNumbers, timeout_s: float) -> str:
    """``refusing``, ``late``, ``waiting`` or nothing, as :attr:`QueueLive.state` says."""
    if numbers.refuses:
        return "refusing"
    if numbers.waiting and numbers.oldest_wait_s >= timeout_s / 2:
        return "late"
    return "waiting" if numbers.waiting else ""


def _admin(row: ReplicaRow, numbers: ReplicaNumbers) -> str | None:
    if row.admin_state == "active":
        return None
    if numbers.in_flight:
        requests = "1 request" if numbers.in_flight == 1 else f"{numbers.in_flight} requests"
        text = f"{requests} in flight"
        if row.move and (left := _left(numbers)):
            text += f": {left}"
    else:
        text = "no requests in flight"
    if row.move and numbers.moved:
        text += f"; {numbers.moved} moved, for some {numbers.moved_prompt_tokens} prompt tokens"
    return text if row.admin_state == "draining" else f"in maintenance by an operator, {text}"


def _left(numbers: ReplicaNumbers) -> str:
    """Why what is in flight at a replica that is to be free is there still."""
    waiting = f"{numbers.movable} waiting for room elsewhere" if numbers.movable else ""
    return ", ".join(filter(None, (waiting, stays_in_words(numbers.staying))))


def _emergency_drain(numbers: ReplicaNumbers) -> str | None:
    places = [
        DrainedAt(proxy=proxy, expires_in_s=left_s) for proxy, left_s in sorted(numbers.drained_at.items())
    ]
    return emergency_drain_text.words(places, numbers.drained_everywhere) or None


def no_credential(numbers: ReplicaNumbers) -> str:
    """``credential env:KEY … (host gpu-1)``; empty: every worker has it, or none is wanted."""
    if not numbers.no_credential or locked_out(numbers):
        return numbers.no_credential
    return f"{numbers.no_credential} at {numbers.no_credential_at} of {numbers.workers} workers"


def _health(
    row: ReplicaRow, numbers: ReplicaNumbers, probe: LastProbe | None, startup_s: float | None
) -> str | None:
    if row.health == "ready":
        return None
    # The word itself is shown when nothing stands before it.
    prefix = f"{row.health}: " if row.admin_state != "active" or numbers.drained_everywhere else ""
    reason = row.health_reason or "no reason recorded"
    if row.health == "checking" and probe is not None and not probe.passed:
        # Rows are written for transitions only: what keeps it from its first pass is in the last result.
        reason = probe.answer
    until = f"; {expectation(startup_s, row.health_for_s)}" if startup_s is not None else ""
    return f"{prefix}{reason}, for {durations.words(row.health_for_s)}{until}"


def expectation(startup_s: float, for_s: float) -> str:
    """When a replica is ready whose start has lasted ``for_s`` and took ``startup_s`` before."""
    if for_s < startup_s:
        return f"expected in {durations.about(startup_s - for_s)}"
    return f"taking longer than the last start ({durations.words(startup_s)})"


def _ejection(row: ReplicaRow, numbers: ReplicaNumbers) -> str | None:
    if not numbers.ejected_by:
        return None
    alone = row.admin_state == "active" and row.health == "ready"
    alone = alone and not (numbers.drained_everywhere or locked_out(numbers))
    prefix = "" if alone else "ejected: "
    text = f"{prefix}{numbers.ejection_reason or 'failures'}"
    if numbers.ejected_by < numbers.workers:
        text += f" at {numbers.ejected_by} of {numbers.workers} workers"
    if numbers.ejected_for_s <= 0:
        return f"{text}; on probation: its next response decides"
    return f"{text}; probation in {durations.words(numbers.ejected_for_s + 0.5)}"


def doubt(numbers: ReplicaNumbers) -> str:
    """Why it is tried out, gets no more than its share, or is just back; empty: none of these, or ejected."""
    if not numbers.doubt or numbers.ejected_by or numbers.doubted_by >= numbers.workers:
        return "" if numbers.ejected_by else numbers.doubt
    return f"{numbers.doubt} at {numbers.doubted_by} of {numbers.workers} workers"


def _weight(row: ReplicaRow) -> str | None:
    return "weight 0: gets no new requests" if row.weight == 0 else None


def _tells_more(row: ReplicaRow, numbers: ReplicaNumbers, probe: LastProbe) -> bool:
    """Shown when probes and the shown state disagree: failing though ready, passing though ejected."""
    if numbers.ejected_by:
        return True
    return row.health == "ready" and not probe.passed


def memory_shortage(row: ReplicaRow, devices: Mapping[str, AcceleratorLive]) -> str:
    """What a replica's accelerators lack for its requests at this moment; empty: nothing, or they take none.

    ``devices``: by name. A lease is for every request anew, so memory holds a replica back without making it
    ineligible: it goes on with the next request that ends. That is why this stands beside admin state, health
    and ejection.
    """
    return "; ".join(text for each in row.placed if (text := _short(each, devices[each.accelerator])))


def _short(placed: AcceleratorPlacement, device: AcceleratorLive) -> str:
    if not placed.request_bytes and not placed.request_bytes_per_work:
        return ""
    free = device.usable_bytes - device.held_bytes - (device.leased_bytes or 0)
    if device.leased_bytes and free < max(placed.request_bytes, 1):
        left = f"{shown_bytes(free)} free" if free > 0 else "nothing free"
        takes = f", a request takes {shown_bytes(placed.request_bytes)}" if placed.request_bytes else ""
        return f"waits for memory on {device.name}: {left} of {shown_bytes(device.usable_bytes)}{takes}"
    if device.lease_waits:
        requests = "1 request" if device.lease_waits == 1 else f"{device.lease_waits} requests"
        return f"memory was short on {device.name} for {requests} in the last {WINDOW_S} s"
    return ""


def when_asked(replica: ReplicaRow, of: FleetRow, fleet: FleetNumbers, here: Collection[str]) -> str:
    """When a replica is asked that is elsewhere for every proxy, in words; empty: it is near to one, or sites
    do not matter there. ``here``: sites of the fleet's replicas, ``""`` of those that are near to all."""
    proxies = fleet.sites.keys()
    if not replica.site or not proxies or of.locality.prefer == "none":
        return ""
    if replica.site in proxies or any(not own or ("" not in here and own not in here) for own in proxies):
        return ""
    return of.locality.when_asked(replica.site, " or ".join(sorted(proxies)))
