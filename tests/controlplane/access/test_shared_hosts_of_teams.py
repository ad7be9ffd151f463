"""On a host that teams share, a role for some fleets only opens no other team's model, by name or probe."""

from typing import Any

import pytest

from controlplane.models import Fleet
from tests.controlplane.access.teams import LABELS, THEIRS, new, refused
from tests.controlplane.conftest import Api

METRICS_OF_THEIRS = {"metrics_path": "/metrics", "metrics_port": 8000}


@pytest.fixture
def shared(sam: Api, api: Api) -> None:
    """An administrator of all fleets made them share a host."""
    assert api.post("/fleets/find/replicas?trial=no", {"name": "b", "url": THEIRS}).status_code == 201


def patched(who: Api, **settings: Any) -> Any:
    return who.patch("/fleets/find?trial=no", settings)


@pytest.mark.usefixtures("shared")
def test_the_models_of_a_sharing_fleet_are_named_by_who_administers_all(sam: Api, api: Api) -> None:
    for field, value in (("served_model", "auction"), ("adapters", ["their-model"])):
        words = refused(patched(sam, **{field: value}), f"/{field}")
        assert words.startswith(f"{field}: the fleet shares a host with one that you do not administer")
        assert "have it changed with administer for all fleets" in words
    ours = {"served_model": "ours", "adapters": ["tuned"]}
    assert patched(api, **ours).status_code == 200
    # What is so already may be sent again; without the names, those of others may be open.
    assert patched(sam, **ours, aliases=["search"]).status_code == 200
    refused(patched(sam, served_model=None), "/served_model")
    refused(patched(sam, adapters=[]), "/adapters")
    assert Fleet.objects.get(name="find").served_model == "ours"


def test_models_on_hosts_of_ones_own_are_ones_own_affair(sam: Api) -> None:
    assert patched(sam, served_model="auction", adapters=["their-model"]).status_code == 200


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize(
    "probe",
    [
        {"path": "/v2/repository/models/auction/unload"},
        {"preset": "http", "path": "/health"},
        {"method": "POST", "path": "/health"},
        {"body": "{}", "path": "/health"},
        {"metrics_path": "/shutdown", "preset": "vllm"},
    ],
)
def test_the_probe_of_a_sharing_fleet_sends_no_requests_of_a_teams_choice(
    sam: Api, api: Api, probe: dict[str, str]
) -> None:
    answer = patched(sam, probe=probe)
    words = refused(answer, answer.json()["errors"][0]["pointer"])
    assert words.startswith("probe/")
    assert "what its probe requests stays as it is" in words
    assert patched(api, probe=probe).status_code == 200
    # As it is it may be sent again; and a preset's own requests are always open.
    assert patched(sam, probe={**probe, "period_s": 9}).status_code == 200
    assert patched(sam, probe={"preset": "vllm", "metrics_path": None}).status_code == 200
    assert patched(sam, probe=None).status_code == 200


@pytest.mark.usefixtures("shared")
def test_a_method_or_body_alone_changes_no_probe_of_a_sharing_fleet(sam: Api, api: Api) -> None:
    assert patched(api, probe={"preset": "http", "path": "/health"}).status_code == 200
    refused(patched(sam, probe={"method": "POST"}), "/probe/method")
    refused(patched(sam, probe={"body": "{}"}), "/probe/body")


@pytest.mark.usefixtures("shared")
def test_a_metrics_path_is_not_moved_to_a_shared_server(sam: Api, api: Api) -> None:
    probe = {"preset": "vllm", "metrics_path": "/m", "metrics_port": 9000}
    assert patched(api, probe=probe).status_code == 200
    for port in (None, 9001):
        refused(patched(sam, probe={"metrics_port": port}), "/probe/metrics_port")


def test_a_metrics_port_does_not_lead_to_another_teams_server(sam: Api, api: Api) -> None:
    beside = "http://10.0.0.7:9000"
    settings = {"probe": {"preset": "vllm", **METRICS_OF_THEIRS}}
    words = refused(sam.post("/fleets?trial=no", new(beside, **settings)), "/probe/metrics_port")
    assert "at this host and port of the metrics page is a fleet that you do not administer" in words
    assert sam.post("/fleets/find/replicas?trial=no", {"name": "b", "url": beside}).status_code == 201
    refused(patched(sam, **settings), "/probe/metrics_port")
    refused(sam.post("/trial-probes", {"url": beside, **settings}), "/probe/metrics_port")
    # Set by who administers all, it may stay; and no other replica comes to where it leads to others.
    assert patched(api, **settings).status_code == 200
    assert patched(sam, **settings, aliases=["search"]).status_code == 200
    refused(
        sam.post("/fleets/find/replicas?trial=no", {"name": "c", "url": "http://10.0.0.7:9001"}),
        "/url",
    )
    assert patched(sam, probe={"metrics_port": 9009}).status_code == 200


def test_a_presets_metrics_port_is_judged_too(sam: Api, api: Api) -> None:
    """Triton's metrics page has a port of its own, 8002."""
    row = {"name": "b", "url": "http://10.0.0.9:8002"}
    assert api.post("/fleets/auction/replicas?trial=no", row).status_code == 201
    refused(
        sam.post("/fleets?trial=no", new("http://10.0.0.9:8000", probe={"preset": "triton"})),
        "/probe/preset",
    )
    on_own = new("http://10.0.0.9:8000", probe={"preset": "triton", "metrics_port": 8003}, labels=LABELS)
    assert sam.post("/fleets?trial=no", on_own).status_code == 201


def test_probes_of_ones_own_hosts_are_ones_own_affair(sam: Api) -> None:
    probe = {"preset": "http", "path": "/x", "method": "POST", "body": "{}", "metrics_path": "/m"}
    assert patched(sam, probe={**probe, "metrics_port": 8000}).status_code == 200


@pytest.mark.parametrize("probe", [7, [], {"preset": 7, "metrics_port": "x"}, {"path": {}}])
@pytest.mark.usefixtures("shared")
def test_nonsense_is_refused_in_words(sam: Api, probe: Any) -> None:
    assert patched(sam, probe=probe, served_model={}, adapters=7).status_code in (400, 403)


def test_who_registers_itself_is_not_at_another_teams_host(sam: Api, api: Api) -> None:
    source = {"name": "self", "lease": {"allow": ["0.0.0.0/0"]}}
    assert api.post("/fleets/find/sources", source).status_code == 201
    words = refused(sam("put", "/fleets/find/sources/self/leases/stolen", {"url": THEIRS}), "/url")
    assert "at this host and port is a fleet that you do not administer" in words
    ours = {"url": "http://10.99.0.1:8000"}
    assert sam("put", "/fleets/find/sources/self/leases/own", ours).status_code == 200
    assert api("put", "/fleets/find/sources/self/leases/shared", {"url": THEIRS}).status_code == 200
