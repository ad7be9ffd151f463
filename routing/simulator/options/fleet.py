"""Fleet and policy of the simulator's command line."""

import argparse
import dataclasses
import re

import msgspec

from routing.contract import fleet_file
from routing.contract.fleet_file import FleetFileError
from routing.contract.policy import Policy, Queue
from routing.simulator.catalogue import Entry, ProxyKnowledge
from routing.simulator.fleets import SimulatedFleet, fixed_slots, from_fleet_file
from routing.simulator.llm_fleets import batching, like
from routing.simulator.llm_workloads import LlmWorkload
from routing.simulator.options.errors import BadSimulationOptions, choose
from routing.simulator.options.policy_fields import with_fields
from routing.simulator.warm_up import WarmUp


def fleet_of(given: argparse.Namespace, entry: Entry) -> tuple[SimulatedFleet, Policy]:
    """The replicas, and the policy that belongs to them before the command line changes it."""
    known = ProxyKnowledge(weights=not given.hide_weights, limits=not given.hide_slots)
    workload = entry.workload
    llm = workload if isinstance(workload, LlmWorkload) else None
    policy = Policy(queue=Queue(at="replica"))
    if given.fleet is not None and given.speeds is not None:
        raise BadSimulationOptions("--fleet and --speeds exclude each other: give one of them")
    if given.speeds is not None and llm is not None:
        return batching(given.speeds, llm.gpu, weights=known.weights, block_tokens=llm.block_tokens), policy
    if given.speeds is not None:
        return fixed_slots(given.speeds, given.slots, **known._asdict()), policy
    if given.fleet is None:
        return entry.fleet(known), policy
    try:
        file = fleet_file.load(given.fleet)
    except OSError as error:
        raise BadSimulationOptions(
            f"--fleet {given.fleet}: {error.strerror}; give the path of a fleet file"
        ) from None
    except FleetFileError as error:
        raise BadSimulationOptions(f"--fleet: {error}") from None
    hardware = {one.name: one.weight for one in file.hardware}
    for one in file.fleets:
        fleet = from_fleet_file(one, hardware, given.slots, **known._asdict())
        if fleet.machines and llm is not None:
            return like(fleet, llm.gpu, block_tokens=llm.block_tokens), one.policy
        if fleet.machines:
            return fleet, one.policy
    raise BadSimulationOptions(
        f"--fleet {given.fleet}: no fleet in it has replicas of a weight above 0; add one"
    )


def policy_of(given: argparse.Namespace, policy: Policy) -> Policy:
    """That of the fleet, with what the command line says."""
    where = given.queue or ("proxy" if given.limit is not None else None)
    if where is not None:
        policy = msgspec.structs.replace(policy, queue=msgspec.structs.replace(policy.queue, at=where))
    if given.slow_start is not None:
        policy = msgspec.structs.replace(policy, slow_start_s=given.slow_start)
    fields = given.policy if given.serves is None else [*given.policy, f"serves={given.serves}"]
    if given.first_token is not None:
        fields = [*fields, f"slo.first_token_s={given.first_token!r}"]
    try:
        return with_fields(policy, fields)
    except ValueError as problem:
        raise BadSimulationOptions(f"--policy {problem}") from None


def with_servers(given: argparse.Namespace, fleet: SimulatedFleet) -> SimulatedFleet:
    """The fleet's, with the limits and beginnings that the command line says."""
    if given.limit is not None:
        fleet = fleet.limited(given.limit)
    machines = {machine.name: machine for machine in fleet.machines}
    for text in given.warm_up:
        replica, warm_up = _replica_and_warm_up(text)
        if replica and replica not in machines:
            words = f"--warm-up {text}: there is no replica {replica!r}"
            raise BadSimulationOptions(f"{words}; {choose(machines)}")
        for name in [replica] if replica else [*machines]:
            machines[name] = dataclasses.replace(machines[name], warm_up=warm_up)
    return dataclasses.replace(fleet, machines=[*machines.values()])


def _replica_and_warm_up(text: str) -> tuple[str, WarmUp]:
    """The replica's name, empty for all of them."""
    found = re.fullmatch(r"(?:(.+):)?(\d{1,6}):(\d*\.?\d+)", text)
    if found is None or not int(found[2]) or not 0 < float(found[3]) <= 1000:
        raise BadSimulationOptions(
            f"--warm-up {text}: write it as r2:3:0.05 or, for all replicas, 3:0.05: how many answers, and "
            "which share of the speed, above 0"
        )
    return found[1] or "", WarmUp(int(found[2]), float(found[3]))
