"""The OpenAPI document is valid, says what may be sent, and every answer has the shape it promises."""

import time
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema
import pytest
from django.http import HttpResponse
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.validation import validate_schema

from controlplane.alerts.destinations import DESTINATION
from controlplane.alerts.rule_book import THRESHOLD
from controlplane.alerts.silences import SILENCE
from controlplane.discovery import last_lists
from controlplane.discovery.last_lists import LastList
from controlplane.models import DiscoverySource, Replica, ReplicaOwner
from controlplane.probes.trial_service import TRIAL
from controlplane.services.client_keys import CLIENT_KEY
from controlplane.services.drain_rules import DRAIN
from controlplane.services.exporter_rules import EXPORTER
from controlplane.services.token_rules import TOKEN
from routing.contract.field_rules import Section
from routing.contract.fleet_file.replica_rules import REPLICA
from routing.contract.fleet_file.rules import ACCELERATOR, FLEET, HARDWARE
from routing.contract.fleet_file.sources.source_rules import SOURCE
from routing.contract.policy_rules import POLICY
from tests.controlplane.api.test_replicas import store_frame
from tests.controlplane.conftest import LLM, Api

pytestmark = pytest.mark.any_database

SCHEMA: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in SCHEMA["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def check(answer: HttpResponse, path: str, method: str) -> None:
    """The answer's body against what the document says of it, with nothing undocumented in it."""
    documented = SCHEMA["paths"][f"/api/v1{path}"][method]["responses"][str(answer.status_code)]["content"]
    kind = answer["Content-Type"].split(";")[0]
    closed = _closed({**documented[kind]["schema"], "components": SCHEMA["components"]})
    jsonschema.validate(answer.json(), closed, cls=jsonschema.Draft202012Validator)


def _closed(schema: Any) -> Any:
    """Also refuses fields that the document does not name."""
    if isinstance(schema, Mapping):
        result = {key: _closed(value) for key, value in schema.items()}
        if schema.get("type") == "object" and "properties" in schema:
            result.setdefault("additionalProperties", False)
        return result
    return [_closed(item) for item in schema] if isinstance(schema, list) else schema


def test_the_document_is_valid_openapi() -> None:
    validate_schema(SCHEMA)
    assert SCHEMA["openapi"].startswith("3.1")


def test_every_operation_has_words_an_id_and_its_errors() -> None:
    ids = [operation["operationId"] for _, _, operation in operations()]
    assert len(ids) == len(set(ids))
    for path, method, operation in operations():
        assert operation["summary"], (method, path)
        assert {"401", "403", "429"} <= operation["responses"].keys(), (method, path)
        assert {"token": []} in operation["security"], (method, path)
    # The words of a class that many views share say nothing of any of them.
    described = [text for *_, operation in operations() if (text := operation.get("description"))]
    assert described
    assert len(described) == len(set(described))


def test_the_document_needs_a_login_and_is_given_out(api: Api, anonymous: Api) -> None:
    assert anonymous.get("/schema").status_code == 401
    assert api.get("/schema", accept="application/json").json()["info"]["title"] == "Switchyard API"


@pytest.mark.parametrize(
    ("path", "method", "rules", "elsewhere"),
    [
        ("/fleets", "post", FLEET, {"sources"}),
        ("/fleets/{fleet}", "patch", FLEET, {"name", "policy", "replicas", "sources"}),
        ("/fleets/{fleet}/policy", "patch", POLICY, set()),
        ("/fleets/{fleet}/replicas", "post", REPLICA, set()),
        ("/fleets/{fleet}/replicas/{replica}", "patch", REPLICA, {"name"}),
        ("/fleets/{fleet}/sources", "post", SOURCE, set()),
        ("/fleets/{fleet}/sources/{source}", "patch", SOURCE, {"name"}),
        ("/fleets/{fleet}/source-trials", "post", SOURCE, set()),
        ("/hardware-classes", "post", HARDWARE, set()),
        ("/exporters", "post", EXPORTER, set()),
        ("/exporters/{name}", "patch", EXPORTER, {"name"}),
        ("/accelerators", "post", ACCELERATOR, set()),
        ("/accelerators/{accelerator}", "patch", ACCELERATOR, {"name"}),
        ("/trial-probes", "post", TRIAL, set()),
        ("/drains", "post", DRAIN, set()),
        ("/client-keys", "post", CLIENT_KEY, set()),
        ("/client-keys/{key}", "patch", CLIENT_KEY, set()),
        ("/tokens", "post", TOKEN, set()),
        ("/alerts/rules", "post", THRESHOLD, set()),
        ("/alerts/rules/{name}", "patch", THRESHOLD, {"name"}),
        ("/alerts/destinations", "post", DESTINATION, {"new_secret"}),
        ("/alerts/destinations/{name}", "patch", DESTINATION, {"name", "kind"}),
        ("/alerts/silences", "post", SILENCE, set()),
    ],
)
def test_what_may_be_sent_is_what_the_rules_check(
    path: str, method: str, rules: Section, elsewhere: set[str]
) -> None:
    content = SCHEMA["paths"][f"/api/v1{path}"][method]["requestBody"]["content"]
    schema = content["application/json"]["schema"]
    assert schema["properties"].keys() == rules.fields.keys() - elsewhere
    assert schema["additionalProperties"] is False
    jsonschema.Draft202012Validator.check_schema(schema)


def test_answers_have_the_shapes_promised(api: Api, redis_client: Any) -> None:
    check(api.post("/hardware-classes", {"name": "h100", "weight": 4}), "/hardware-classes", "post")
    check(api.post("/fleets", LLM), "/fleets", "post")
    store_frame(redis_client)
    check(api.patch("/fleets/llm", {"aliases": ["x"]}), "/fleets/{fleet}", "patch")
    change = {"strategy": "round_robin", "max_concurrency": 4}
    check(api.patch("/fleets/llm/policy", change), "/fleets/{fleet}/policy", "patch")
    device = {"name": "node1/gpu0", "memory_bytes": 80 * 2**30}
    check(api.post("/accelerators", device), "/accelerators", "post")
    replica = {"name": "c", "url": "http://h", "hardware": "h100", "accelerators": ["node1/gpu0"]}
    check(api.post("/fleets/llm/replicas", replica), "/fleets/{fleet}/replicas", "post")
    drain = {"admin_state": "draining", "move": True, "weight": 1.5}
    check(api.patch("/fleets/llm/replicas/a", drain), "/fleets/{fleet}/replicas/{replica}", "patch")
    check(api.post("/drains", {"accelerator": "node1/gpu0", "move": True}), "/drains", "post")
    check(api.post("/trial-probes", {"url": "http://127.0.0.1:9"}), "/trial-probes", "post")
    source = {"name": "pods", "file": {"path": "llm.yaml"}, "replica": {"site": "east"}}
    check(api.post("/fleets/llm/sources", source), "/fleets/{fleet}/sources", "post")
    ReplicaOwner.objects.create(replica=Replica.objects.get(name="b"), source=DiscoverySource.objects.get())
    last = LastList(at=time.time(), took_s=0.1, entries=1, left_alone=["a"], refused={"b": "no"})
    last_lists.store(redis_client, str(DiscoverySource.objects.get().uid), last)
    service = {"namespace": "m", "service": "s", "labels": {"site": "zone"}}
    for kind, settings in {"kubernetes": service, "dns": {"name": "llm.models.example"}}.items():
        check(
            api.post("/fleets/llm/sources", {"name": kind, kind: settings}), "/fleets/{fleet}/sources", "post"
        )
    leases = {"name": "self", "lease": {"allow": ["10.0.0.0/8"]}}
    check(api.post("/fleets/llm/sources", leases), "/fleets/{fleet}/sources", "post")
    lease, template = {"url": "http://10.0.0.1:1"}, "/fleets/{fleet}/sources/{source}/leases/{replica}"
    check(api("put", "/fleets/llm/sources/self/leases/z", lease), template, "put")
    later = {"resync_s": 5}
    check(api.patch("/fleets/llm/sources/pods", later), "/fleets/{fleet}/sources/{source}", "patch")
    listed = api.post("/fleets/llm/sources/pods/resync")
    check(listed, "/fleets/{fleet}/sources/{source}/resync", "post")
    check(api.post("/fleets/llm/source-trials", leases), "/fleets/{fleet}/source-trials", "post")
    restored = api.post("/fleets/llm/revisions/1/restore")
    check(restored, "/fleets/{fleet}/revisions/{number}/restore", "post")
    check(api.patch("/hardware-classes/h100", {"weight": 5}), "/hardware-classes/{name}", "patch")
    less = {"headroom_percent": 10}
    check(api.patch("/accelerators/node1/gpu0", less), "/accelerators/{accelerator}", "patch")
    exporter = {"name": "h100", "host": "node1", "url": "http://node1:9400"}
    check(api.post("/exporters", exporter), "/exporters", "post")
    check(api.patch("/exporters/h100", {"host": "node2"}), "/exporters/{name}", "patch")
    made = api.post("/client-keys", {"name": "website", "fleets": ["llm"]})
    check(made, "/client-keys", "post")
    key = made.json()["id"]
    check(api.patch(f"/client-keys/{key}", {"fleets": None}), "/client-keys/{key}", "patch")
    check(api.post("/tokens", {"name": "laptop"}), "/tokens", "post")
    rule = {"name": "slow", "metric": "p99_s", "comparison": "above", "value": "2 s", "fleet": "llm"}
    check(api.post("/alerts/rules", rule), "/alerts/rules", "post")
    check(api.patch("/alerts/rules/slow", {"for_s": 30}), "/alerts/rules/{name}", "patch")
    pager = {"name": "pager", "kind": "webhook", "url": "http://127.0.0.1:9/"}
    check(api.post("/alerts/destinations", pager), "/alerts/destinations", "post")
    check(api.patch("/alerts/destinations/pager", {"repeat_s": 600}), "/alerts/destinations/{name}", "patch")
    check(api.post("/alerts/destinations/pager/test"), "/alerts/destinations/{name}/test", "post")
    silenced = api.post("/alerts/silences", {"fleet": "llm", "reason": "disks", "duration_s": 600})
    check(silenced, "/alerts/silences", "post")
    named = {"/alerts/rules/{name}": "slow", "/alerts/destinations/{name}": "pager"}
    for path in [path for path, method, _ in operations() if method == "get"]:
        address = path.removeprefix("/api/v1")
        names = {"fleet": "llm", "replica": "a", "name": named.get(address, "h100"), "key": key, "number": 1}
        names["silence"] = silenced.json()["id"]
        names["source"] = "pods"
        names["accelerator"] = "node1/gpu0"
        if address == template:
            names |= {"source": "self", "replica": "z"}
        query = "?host=node1" if address == "/drains" else ""
        answer = api.get(address.format(**names) + query)
        assert answer.status_code == 200, path
        check(answer, address, "get")
    check(api.delete(f"/client-keys/{key}"), "/client-keys/{key}", "delete")
    check(api.delete("/fleets/llm/sources/self/leases/z"), template, "delete")


def test_errors_have_the_shape_promised(api: Api, llm: str) -> None:
    check(api.get("/fleets/nope"), "/fleets/{fleet}", "get")
    check(api.patch("/fleets/llm/policy", {"strategy": "x"}), "/fleets/{fleet}/policy", "patch")
    stale = api.patch("/fleets/llm/policy", {"slow_start_s": 1}, if_match='"9"')
    check(stale, "/fleets/{fleet}/policy", "patch")
