"""Every process that ``make up`` starts can be scraped, is alive and ready, and logs one object a line."""

import json
import re
from typing import Any

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.proxy_process import until
from tests.system.stack import METRICS_OFFSETS, Answer, Stack, exchange

pytestmark = pytest.mark.system

PROCESSES = ("web", "worker", "beat", "conductor", "proxy")


def port_of(stack: Stack, process: str) -> int:
    if process == "proxy":
        return stack.admin_port
    return stack.examples_port + METRICS_OFFSETS[PROCESSES.index(process)]


def scrape(stack: Stack, process: str) -> dict[str, Metric]:
    answer = exchange(port_of(stack, process), "GET", "/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = list(text_string_to_metric_families(answer.body.decode()))
    assert len({family.name for family in families}) == len(families)
    return {family.name: family for family in families}


def series(stack: Stack, process: str) -> set[tuple[str, tuple[tuple[str, str], ...]]]:
    return {
        (sample.name, tuple(sorted(sample.labels.items())))
        for family in scrape(stack, process).values()
        for sample in family.samples
    }


@pytest.mark.parametrize("process", PROCESSES)
def test_each_process_can_be_scraped(stack: Stack, process: str) -> None:
    families = scrape(stack, process)
    (build,) = families["switchyard_build_info"].samples
    assert build.labels["process"] == process
    assert families["process_resident_memory_bytes"].samples[0].value > 1e6
    assert families["process_open_fds"].samples[0].value > 3
    for family in families.values():
        assert family.documentation, family.name
        assert family.type in ("counter", "gauge", "histogram"), family.name
        assert all(sample.value >= 0 for sample in family.samples if "_sum" not in sample.name)
    for path in ("/livez", "/readyz"):
        answer = exchange(port_of(stack, process), "GET", path)
        assert answer.status == 200, answer


def test_the_work_of_each_is_counted(stack: Stack) -> None:
    def value(process: str, name: str, **labels: str) -> float:
        families = scrape(stack, process).values()
        mine = [sample for family in families for sample in family.samples if sample.name == name]
        return sum(sample.value for sample in mine if labels.items() <= sample.labels.items())

    tick = "controlplane.probes.tasks.tick"
    until(
        lambda: value("worker", "switchyard_tasks_total", task=tick, outcome="success") > 2, "ticks are done"
    )
    until(
        lambda: value("beat", "switchyard_beat_tasks_sent_total", task=tick, outcome="sent") > 2, "and sent"
    )
    assert value("conductor", "switchyard_conductor_leader") == 1
    until(lambda: value("conductor", "switchyard_conductor_proxy_workers") == 2, "two workers are heard")
    assert value("worker", "switchyard_probes_scheduled") == 7
    assert value("worker", "switchyard_probe_lateness_seconds_count") > 0
    assert value("proxy", "switchyard_worker_up") == 2
    stack.api("GET", "/fleets")
    assert value("web", "switchyard_web_requests_total", route="/api/v1/fleets", status="2xx") > 0


def test_no_label_grows_with_what_clients_make_up(stack: Stack) -> None:
    def made_up(number: int) -> list[Answer]:
        path, host = f"/made/up/{number}", {"Host": f"host-{number}.example"}
        return [
            stack.ask(path),
            stack.ask(f"/fleets/fleet-{number}/v1/x"),
            stack.ask("/v1/chat/completions", {"model": f"model-{number}", "messages": []}),
            stack.ask(f"/v2/models/model-{number}/infer", {"inputs": []}),
            exchange(stack.port, "GET", path),
            exchange(stack.port, "GET", f"/fleets/fleet-{number}"),
            exchange(stack.port, "GET", f"/api/v1/fleets/{number}/replicas/{number}", headers=host),
        ]

    assert {answer.status // 100 for answer in made_up(0)} <= {3, 4}
    before = {process: series(stack, process) for process in ("web", "proxy")}
    for number in range(1, 12):
        made_up(number)
    for process, known in before.items():
        new = {labels for name, labels in series(stack, process) - known}
        said = " ".join(value for labels in new for _, value in labels)
        assert not re.search(r"made|fleet-\d|model-\d|host-\d", said), said
        # What runs beside this test may be answered for the first time meanwhile; 77 requests were sent.
        assert len(new) < 20


def test_logs_are_one_object_a_line(stack: Stack) -> None:
    for process in PROCESSES:
        lines = (stack.data / "logs" / f"{process}.log").read_text().splitlines()
        found: list[dict[str, Any]] = [json.loads(line) for line in lines]
        for line in found:
            assert {"time", "level", "logger", "message", "process"} <= line.keys(), line
            assert line["process"].split("/")[0] in (process, "manage"), line
    answer = exchange(stack.port, "GET", "/livez", headers={"X-Request-Id": "scraped-1"})
    assert answer.headers["x-request-id"] == "scraped-1"
    web = stack.data / "logs" / "web.log"
    until(lambda: '"request_id":"scraped-1"' in web.read_text(), "the request has its line")


def test_the_system_is_well(stack: Stack) -> None:
    def levels() -> dict[str, str]:
        return {part["name"]: part["level"] for part in stack.api("GET", "/system")["parts"]}

    until(lambda: set(levels().values()) == {"calm"}, "every part is well", 30)
    system = stack.api("GET", "/system")
    assert {row["role"] for row in system["processes"]} == {"web", "worker", "beat", "conductor"}
    assert [row["behind"] for row in system["proxies"]] == [[], []]
