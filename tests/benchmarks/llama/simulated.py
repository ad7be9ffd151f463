"""The same trace in the simulator: behind simulated proxies, or each server with a real one's requests."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from routing.balancing.attempt.outcome import Outcome
from routing.contract.policy import Policy
from routing.simulator.batching import BatchingServer
from routing.simulator.engine import Engine
from routing.simulator.estimates import estimate
from routing.simulator.gpus import Gpu
from routing.simulator.llm_fleets import batching
from routing.simulator.requests import Request
from routing.simulator.simulation import Setting, simulate
from routing.simulator.workloads import Traffic
from tests.benchmarks.llama.client import Job, Seen
from tests.benchmarks.llama.trace import Recorded


class _Recorder:
    """Hears of one request."""

    def __init__(self, request: Request) -> None:
        self.request = request

    def first_byte(self, now: float) -> None:
        self.request.first_byte_s = now

    def tokens(self, now: float, count: int) -> None:
        self.request.tokens += count

    def ended(self, now: float, outcome: Outcome) -> None:
        self.request.ended_s = now


def servers_alone(
    gpu: Gpu, speeds: Mapping[str, float], jobs: Sequence[Job], real: Sequence[Seen]
) -> tuple[list[Seen], float]:
    """Each request goes where the real one went, when it was due; and the CPU seconds of all servers.
    ``speeds``: by the servers' names."""
    engine = Engine()
    servers = {name: BatchingServer(engine, speed, gpu) for name, speed in speeds.items()}
    requests = []
    for job, one in zip(jobs, real, strict=True):
        request = Request(job.at_s, prompt_tokens=job.prompt_tokens, output_tokens=job.output_tokens)
        requests.append(request)
        server, recorder = servers[one.replica], _Recorder(request)
        engine.at(job.at_s, lambda server=server, recorder=recorder: server.begin(recorder.request, recorder))
    engine.run()
    seen = [
        Seen(request.first_byte_s - request.at_s, request.latency_s, one.replica)
        for request, one in zip(requests, real, strict=True)
    ]
    return seen, sum(server.busy_s * server.speed for server in servers.values())


def at_cpu_s(
    gpu: Gpu, speeds: Mapping[str, float], jobs: Sequence[Job], real: Sequence[Seen], used_s: float
) -> Gpu:
    """The same costs, all times one factor, so that the servers use as many CPU seconds as the real ones did:
    how fast a core is differs from minute to minute where others use the machine too."""
    scaled = gpu
    for _ in range(4):
        _, simulated_s = servers_alone(scaled, speeds, jobs, real)
        factor = used_s / simulated_s
        scaled = scaled._replace(
            step_s=scaled.step_s * factor,
            sequence_s=scaled.sequence_s * factor,
            kv_token_s=scaled.kv_token_s * factor,
            prompt_token_s=scaled.prompt_token_s * factor,
        )
    return scaled


def behind_a_proxy(gpu: Gpu, speeds: Mapping[str, float], jobs: Sequence[Job], policy: Policy) -> list[Seen]:
    """The proxy is told no weights."""
    fleet = batching([*speeds.values()], gpu, weights=False)
    machines = [replace(one, name=name) for one, name in zip(fleet.machines, speeds, strict=True)]
    setting = Setting(
        fleet=replace(fleet, machines=machines),
        workload=Recorded(jobs),
        traffic=Traffic(estimate=estimate("exact")),
        policy=policy,
    )
    requests = simulate(setting, policy.strategy).requests
    return [Seen(one.first_byte_s - one.at_s, one.latency_s, one.replica) for one in requests]
