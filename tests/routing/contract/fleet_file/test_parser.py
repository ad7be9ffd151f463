"""Fleet files that are right: what they mean, and that they survive being written and read again."""

from pathlib import Path
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.contract.accelerators import MemoryClaim
from routing.contract.defaults import with_defaults, without_defaults
from routing.contract.fleet_file import (
    ExistingState,
    FleetEntry,
    FleetFile,
    FleetFileError,
    HardwareEntry,
    ReplicaEntry,
    dump,
    load,
    loads,
)
from routing.contract.policy import Cold, Ejection, Policy, Queue, ReplaySafe, Retries, Timeouts
from routing.contract.probe import Probe
from routing.contract.table import AcceleratorSpec, AdminState, ApiProtocol

WHOLE = """\
version: 1
hardware:
  - {name: h100-80g, weight: 4.0}
accelerators:
  - {name: node1/gpu0, memory_bytes: 85899345920, headroom_percent: 10}
  - {name: node1/gpu1, memory_bytes: 85899345920}
fleets:
  - name: llama-3-8b
    aliases: [chat]
    adapters: [sql-lora, "org/Support LoRA"]
    served_model: meta-llama/Llama-3.1-8B-Instruct
    protocol: openai
    default: true
    policy:
      strategy: least_expected_work
      parameters: {kappa: 3.0}
      max_concurrency: 8
      timeouts: {connect_s: 1, first_byte_s: 60, idle_s: 60, stall_s: 30, total_s: 600}
      retries: {budget_percent: 10, replay_safe: never}
      ejection: {consecutive_failures: 5, base_s: 5, max_ejected_percent: 50}
      slow_start_s: 30
    probe: {preset: vllm, period_s: 2, timeout_s: 5, rise: 2, fall: 3}
    replicas:
      - {name: a, url: "http://10.0.0.1:8000/", hardware: h100-80g, accelerators: [node1/gpu0, node1/gpu1],
         memory_bytes: 17179869184, request_bytes: 1048576, request_bytes_per_work: 131072.5}
      - {name: b, url: "http://Node-2", weight: 1, max_concurrency: 4, adapters: [org/Support LoRA],
         admin_state: draining}
"""


def test_every_field_is_read() -> None:
    assert loads(WHOLE) == FleetFile(
        hardware=[HardwareEntry(name="h100-80g", weight=4.0)],
        accelerators=[
            AcceleratorSpec(name="node1/gpu0", memory_bytes=80 << 30, headroom_percent=10.0),
            AcceleratorSpec(name="node1/gpu1", memory_bytes=80 << 30),
        ],
        fleets=[
            FleetEntry(
                name="llama-3-8b",
                protocol="openai",
                aliases=["chat"],
                adapters=["sql-lora", "org/Support LoRA"],
                served_model="meta-llama/Llama-3.1-8B-Instruct",
                default=True,
                policy=Policy(
                    parameters={"kappa": 3.0},
                    max_concurrency=8,
                    timeouts=Timeouts(connect_s=1.0),
                    retries=Retries(budget_percent=10.0, replay_safe="never"),
                ),
                probe=Probe(preset="vllm", timeout_s=5.0),
                replicas=[
                    ReplicaEntry(
                        name="a",
                        url="http://10.0.0.1:8000",
                        hardware="h100-80g",
                        accelerators=["node1/gpu0", "node1/gpu1"],
                        memory_bytes=16 << 30,
                        request_bytes=1 << 20,
                        request_bytes_per_work=131072.5,
                    ),
                    ReplicaEntry(
                        name="b",
                        url="http://node-2:80",
                        weight=1.0,
                        max_concurrency=4,
                        adapters=["org/Support LoRA"],
                        admin_state="draining",
                    ),
                ],
            )
        ],
    )


def test_names_protocol_and_urls_are_enough() -> None:
    file = loads("fleets: [{name: a, protocol: generic, replicas: [{name: r, url: 'http://h:1'}]}]")
    assert file.fleets[0] == FleetEntry(
        name="a", protocol="generic", replicas=[ReplicaEntry(name="r", url="http://h:1")]
    )


def test_null_means_as_if_not_set() -> None:
    file = loads(
        "fleets: [{name: a, protocol: generic, policy: {max_concurrency: null},"
        " replicas: [{name: r, url: 'http://h:1', weight: ~, hardware: null, adapters: null}]}]"
    )
    assert file.fleets[0].policy == Policy()
    assert file.fleets[0].replicas[0] == ReplicaEntry(name="r", url="http://h:1")


def test_json_is_read_as_well() -> None:
    assert loads('{"fleets": [{"name": "a", "protocol": "openai", "default": true}]}').fleets[0].default


def test_an_alias_shares_a_whole_value() -> None:
    file = loads(
        "fleets:\n"
        "  - {name: a, protocol: openai, policy: &slow {slow_start_s: 5}}\n"
        "  - {name: b, protocol: openai, policy: *slow}\n"
    )
    assert file.fleets[1].policy.slow_start_s == 5.0


@pytest.mark.parametrize("word", ["yes", "010", "1:30", "2026-01-01", "1_000", "0x10", "on", "true", "1e3"])
def test_what_looks_like_something_else_is_text_where_it_is_quoted(word: str) -> None:
    assert loads(f"fleets: [{{name: a, protocol: openai, aliases: ['{word}']}}]").fleets[0].aliases == [word]


@pytest.mark.parametrize("word", ["yes", "010", "1:30", "2026-01-01", "1_000", "0x10", "on"])
def test_words_that_older_yaml_turns_into_other_things_stay_text(word: str) -> None:
    assert loads(f"fleets: [{{name: a, protocol: openai, aliases: [{word}]}}]").fleets[0].aliases == [word]


@pytest.mark.parametrize(
    ("text", "number"), [("1e1", 10.0), ("+2", 2.0), (".5", 0.5), ("3.", 3.0), ("2E-1", 0.2)]
)
def test_numbers_as_yaml_1_2_writes_them(text: str, number: float) -> None:
    assert loads(f"hardware: [{{name: a, weight: {text}}}]\nfleets: []").hardware[0].weight == number


def test_classes_known_elsewhere_may_be_named() -> None:
    text = "fleets: [{name: a, protocol: openai, replicas: [{name: r, url: 'http://h', hardware: gpu}]}]"
    assert loads(text, existing=ExistingState(hardware={"gpu"})).fleets[0].replicas[0].hardware == "gpu"


def test_devices_and_what_they_hold_may_be_known_elsewhere() -> None:
    text = (
        "fleets: [{name: a, protocol: openai, replicas: [{name: r, url: 'http://h', accelerators: [gpu0], "
        "memory_bytes: 5}]}]"
    )
    device = AcceleratorSpec(name="gpu0", memory_bytes=10, headroom_percent=0)
    replaced = MemoryClaim("gpu0", fleet="a", replica="r", memory_bytes=6)
    fits = ExistingState(accelerators=[device], held=[MemoryClaim("gpu0", "b", "r", 5), replaced])
    assert loads(text, existing=fits).fleets[0].replicas[0].accelerators == ["gpu0"]
    with pytest.raises(FleetFileError) as refused:
        loads(text, existing=ExistingState(accelerators=[device], held=[MemoryClaim("gpu0", "b", "r", 6)]))
    assert [str(problem) for problem in refused.value.problems] == [
        "line 1, column 112: fleets[0].replicas[0].memory_bytes: does not fit on accelerator gpu0: it has "
        "10 bytes, and its replicas hold b/r 6 bytes + a/r 5 bytes = 11 bytes, 1 byte too much"
    ]


def test_a_device_cannot_become_too_small_for_what_is_on_it_elsewhere() -> None:
    text = "accelerators: [{name: gpu0, memory_bytes: 9, headroom_percent: 0}]\nfleets: []"
    before = AcceleratorSpec(name="gpu0", memory_bytes=90)
    with pytest.raises(FleetFileError) as refused:
        loads(text, existing=ExistingState(accelerators=[before], held=[MemoryClaim("gpu0", "b", "r", 10)]))
    assert [str(problem) for problem in refused.value.problems] == [
        "line 1, column 43: accelerators[0].memory_bytes: does not fit on accelerator gpu0: it has 9 bytes, "
        "and its replicas hold b/r 10 bytes, 1 byte too much"
    ]


def test_a_file_on_disk_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "fleets.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + WHOLE.encode())
    assert load(path) == loads(WHOLE)


def test_defaults_are_left_out_of_what_is_written() -> None:
    assert dump(loads(WHOLE)) == (
        """\
version: 1
hardware:
- {name: h100-80g, weight: 4.0}
accelerators:
- {name: node1/gpu0, memory_bytes: 85899345920, headroom_percent: 10.0}
- {name: node1/gpu1, memory_bytes: 85899345920}
fleets:
- name: llama-3-8b
  protocol: openai
  aliases: [chat]
  adapters: [sql-lora, org/Support LoRA]
  served_model: meta-llama/Llama-3.1-8B-Instruct
  default: true
  policy:
    parameters: {kappa: 3.0}
    max_concurrency: 8
    retries: {budget_percent: 10.0, replay_safe: never}
  probe: {preset: vllm, timeout_s: 5.0}
  replicas:
  - name: a
    url: http://10.0.0.1:8000
    hardware: h100-80g
    accelerators: [node1/gpu0, node1/gpu1]
    memory_bytes: 17179869184
    request_bytes: 1048576
    request_bytes_per_work: 131072.5
  - name: b
    url: http://node-2:80
    weight: 1.0
    max_concurrency: 4
    adapters: [org/Support LoRA]
    admin_state: draining
"""
    )
    assert dump(FleetFile()) == "version: 1\nfleets: []\n"


@pytest.mark.parametrize("word", ["1e3", "12", "-.5", ".inf", "true", "null", "~", "yes", "<<", "a: b", "#x"])
def test_text_that_looks_like_something_else_is_written_in_quotes(word: str) -> None:
    file = FleetFile(fleets=[FleetEntry(name="a", protocol="openai", aliases=[word])])
    assert loads(dump(file)) == file


slugs = st.from_regex(r"\A[a-z0-9]([a-z0-9._-]{0,8}[a-z0-9])?\Z")
aliases = st.text(min_size=1, max_size=12).filter(lambda text: text.isprintable() and text == text.strip())
seconds = st.floats(0.1, 60)
policies = st.builds(
    Policy,
    parameters=st.dictionaries(
        aliases, st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e9, 1e9) | aliases, max_size=3
    ),
    max_concurrency=st.none() | st.integers(1, 99),
    timeouts=st.builds(Timeouts, connect_s=seconds, stall_s=seconds),
    retries=st.builds(
        Retries,
        replay_safe=st.sampled_from(get_args(ReplaySafe)),
        statuses=st.lists(st.sampled_from([429, 500, 503, 599]), max_size=3, unique=True),
    ),
    ejection=st.builds(Ejection, base_s=seconds),
    queue=st.builds(Queue, size=st.integers(0, 9), cold=st.sampled_from(get_args(Cold))),
    slow_start_s=seconds,
)
probes = st.builds(
    Probe,
    path=st.just("/healthz"),
    body_contains=st.none() | st.text(st.characters(codec="utf-8", exclude_categories=["C"]), min_size=1),
    accepted_statuses=st.none() | st.lists(st.integers(200, 599), min_size=1, max_size=3, unique=True),
)


devices = st.builds(
    AcceleratorSpec,
    name=st.lists(slugs, min_size=1, max_size=3).map("/".join),
    memory_bytes=st.integers(10**6, 10**12),
    headroom_percent=st.floats(0, 99),
)


def on_devices(known: list[AcceleratorSpec]) -> st.SearchStrategy[dict[str, object]]:
    """A replica's fields about memory."""
    return st.fixed_dictionaries(
        {
            "accelerators": st.lists(
                st.sampled_from([device.name for device in known]), min_size=1, unique=True
            ),
            "memory_bytes": st.none() | st.integers(0, 9),
            "request_bytes": st.integers(0, 9),
            "request_bytes_per_work": st.floats(0, 9),
        }
    )


@st.composite
def replica_entries(draw: st.DrawFn, classes: list[str], known: list[AcceleratorSpec]) -> ReplicaEntry:
    memory = draw(on_devices(known)) if known and draw(st.booleans()) else {}
    return draw(replicas_on(classes, memory))


def replicas_on(classes: list[str], memory: dict[str, object]) -> st.SearchStrategy[ReplicaEntry]:
    return st.builds(
        ReplicaEntry,
        **{field: st.just(value) for field, value in memory.items()},
        name=slugs,
        url=st.just("http://10.0.0.1:8000"),
        hardware=st.sampled_from(["", *classes]),
        weight=st.none() | st.floats(0, 1000),
        max_concurrency=st.none() | st.integers(1, 99),
        adapters=st.none() | st.just([]),
        admin_state=st.none() | st.sampled_from(get_args(AdminState)),
    )


@st.composite
def files(draw: st.DrawFn) -> FleetFile:
    classes = draw(st.lists(slugs, unique=True, max_size=2))
    accelerators = draw(st.lists(devices, unique_by=lambda device: device.name, max_size=2))
    replicas = replica_entries(classes, accelerators)
    names = draw(st.lists(slugs, unique=True, max_size=3))
    fleets = [
        draw(
            st.builds(
                FleetEntry,
                name=st.just(name),
                protocol=st.sampled_from(get_args(ApiProtocol)),
                aliases=st.just([f"{name} {draw(aliases)}"]) | st.just([]),
                adapters=st.just([f"{name}: {draw(aliases)}"]) | st.just([]),
                served_model=st.just("") | aliases,
                default=st.just(name == names[0] and draw(st.booleans())),
                policy=policies,
                probe=st.just(Probe()) | probes,
                replicas=st.lists(replicas, unique_by=lambda replica: replica.name, max_size=2),
            )
        )
        for name in names
    ]
    weight = st.floats(0, 1000)
    return FleetFile(
        hardware=[HardwareEntry(name=name, weight=draw(weight)) for name in classes],
        accelerators=accelerators,
        fleets=fleets,
    )


@given(files())
def test_what_is_written_reads_back_the_same(file: FleetFile) -> None:
    assert loads(dump(file)) == file


@given(policies)
def test_settings_without_defaults_make_the_same_policy(policy: Policy) -> None:
    settings = without_defaults(policy)
    assert with_defaults(settings, Policy) == policy
    assert msgspec.convert(settings, Policy) == policy


def test_a_policy_left_alone_has_no_settings() -> None:
    assert without_defaults(Policy()) == {}
    assert without_defaults(Policy(timeouts=Timeouts(idle_s=5.0))) == {"timeouts": {"idle_s": 5.0}}
