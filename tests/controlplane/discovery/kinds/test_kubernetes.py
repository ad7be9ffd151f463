"""Kubernetes against an API server on a real socket: pages, labels, faults of lists and of watches."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from controlplane.discovery.kinds import kubernetes
from controlplane.discovery.kinds.endpoint_slices import EndpointSlice, listing_of
from controlplane.discovery.kinds.kind import SourceError
from controlplane.discovery.kinds.kubernetes import ClusterAccess, KubernetesService
from controlplane.discovery.kinds.paged_list import AskedToWait
from controlplane.discovery.listing import Memory, OwnReplica
from controlplane.discovery.reconciler import reconcile
from routing.contract.fleet_file.sources.source_structs import KubernetesSettings
from tests.certificates import make_certificate
from tests.controlplane.discovery.kinds.api_server import ApiServer, endpoint, endpoint_slice, serving

SETTINGS = msgspec.to_builtins(KubernetesSettings(namespace="models", service="llm"))


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with serving(ApiServer()) as server:
        server.put(endpoint_slice("s1", endpoint("llm-a", "10.0.0.1"), endpoint("llm-b", "10.0.0.2")))
        yield server


@pytest.fixture
async def make(server: ApiServer, tmp_path: Path) -> AsyncIterator[Callable[..., KubernetesService]]:
    (tmp_path / "token").write_text("t1\n")
    made: list[KubernetesService] = []

    def make(**settings: Any) -> KubernetesService:
        access = ClusterAccess(server.url, str(tmp_path / "token"), "")
        made.append(KubernetesService(access, {**SETTINGS, **settings}, {"site": "east"}))
        return made[-1]

    yield make
    for one in made:
        await one.close()


async def test_endpoints_are_replicas_named_after_their_pods(
    server: ApiServer, make: Callable[..., KubernetesService], tmp_path: Path
) -> None:
    leaving = endpoint("llm-c", conditions={"ready": False, "serving": True, "terminating": True})
    server.put(endpoint_slice("s2", leaving, endpoint("llm-d", "10.0.0.4", conditions={"ready": False})))
    found = await make().read({})
    assert {name: entry.url for name, entry in found.entries.items()} == {
        "llm-a": "http://10.0.0.1:8000",
        "llm-b": "http://10.0.0.2:8000",
        "llm-d": "http://10.0.0.4:8000",
    }
    assert (found.leaving, found.complete, found.entries["llm-a"].site) == ({"llm-c"}, True, "east")
    (tmp_path / "token").write_text("t2\n")
    await make().read({})
    assert server.tokens == {"Bearer t1", "Bearer t2"}


async def test_long_lists_come_in_pages_and_an_expired_token_begins_anew(
    server: ApiServer, make: Callable[..., KubernetesService]
) -> None:
    for number in range(5):
        server.put(endpoint_slice(f"t{number}", endpoint(f"pod-{number}", f"10.0.1.{number}")))
    server.page = 2
    kind = make()
    assert len((await kind.read({})).entries) == 7
    assert len(server.asked) == 3
    server.faults.extend(["", web.Response(status=410)])
    assert len((await kind.read({})).entries) == 7
    assert "limit=" not in server.asked[-1]


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("break", "the API server"),
        ("truncated", "list of endpoint slices is truncated"),
        (web.Response(text="<html>"), "list of endpoint slices breaks off, or is none"),
        (web.Response(text='{"metadata": {}, "items": [{}]}'), "breaks off, or is none"),
        (web.Response(status=500), "answers 500 for endpoint slices"),
        (web.Response(status=403), "does not let this service account list endpoint slices"),
        (web.Response(status=401), "does not accept the token"),
    ],
)
async def test_what_is_no_whole_list_is_none(
    server: ApiServer, make: Callable[..., KubernetesService], fault: Any, words: str
) -> None:
    kind = make()
    server.faults.append(fault)
    with pytest.raises(SourceError, match=words):
        await kind.read({})
    assert len((await kind.read({})).entries) == 2


async def test_a_server_that_asks_to_wait_is_left_alone(
    server: ApiServer, make: Callable[..., KubernetesService]
) -> None:
    kind = make()
    server.faults.append(web.Response(status=429, headers={"Retry-After": "30"}))
    for _ in range(3):
        with pytest.raises(AskedToWait, match="asks to wait"):
            await kind.read({})
    assert len(server.asked) == 1
    kind._not_before = 0.0
    assert len((await kind.read({})).entries) == 2


async def test_labels_of_pods_say_class_site_and_version(
    server: ApiServer, make: Callable[..., KubernetesService]
) -> None:
    labels = {"hardware": "gpu/product", "site": "zone", "version": "rev"}
    server.pods = {"llm-a": {"gpu/product": "NVIDIA H100 80GB", "rev": "V2"}, "other": {"rev": "x"}}
    server.put(
        endpoint_slice("s1", endpoint("llm-a"), endpoint("llm-b", "10.0.0.2"), labels={"zone": "eu-1a"})
    )
    found = (await make(labels=labels).read({})).entries
    assert (found["llm-a"].hardware, found["llm-a"].site, found["llm-a"].version) == (
        "nvidia-h100-80gb",
        "eu-1a",
        "V2",
    )
    assert (found["llm-b"].hardware, found["llm-b"].version) == ("", "")


async def test_a_wrong_service_is_told(server: ApiServer, make: Callable[..., KubernetesService]) -> None:
    with pytest.raises(SourceError, match="knows no service nope"):
        await make(labels={"site": "zone"}, service="nope")._pod_labels()
    server.slices.clear()
    found = await make().read({})
    assert found.note == "service llm in namespace models has no endpoints"


async def ring(kind: KubernetesService) -> str:
    async for _ in kind.changes():
        return "rings"
    return "ended"


async def test_a_watch_rings_and_its_faults_end_it(
    server: ApiServer, make: Callable[..., KubernetesService]
) -> None:
    kind = make()
    first = asyncio.create_task(ring(kind))
    await kind.read({})
    await asyncio.wait_for(server.watched.wait(), 5)
    large = [endpoint(f"llm-{number}", f"10.0.{number // 250}.{number % 250}") for number in range(1000)]
    server.put(endpoint_slice("s1", *large))
    assert await asyncio.wait_for(first, 5) == "rings"
    for fault in ("410", "dies"):
        server.watch_fault = fault
        await kind.read({})
        assert await asyncio.wait_for(ring(kind), 5) == "ended"


async def test_tls_with_the_clusters_own_ca(tmp_path: Path) -> None:
    pair = make_certificate(tmp_path)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(pair.certificate, pair.key)
    async with serving(ApiServer(), tls) as server:
        trusting = KubernetesService(ClusterAccess(server.url, "", str(pair.certificate)), SETTINGS, {})
        assert not (await trusting.read({})).entries
        await trusting.close()
        strict = KubernetesService(ClusterAccess(server.url, "", ""), SETTINGS, {})
        with pytest.raises(SourceError, match="certificate"):
            await strict.read({})
        await strict.close()
    for token, ca in ((str(tmp_path / "none"), ""), ("", str(tmp_path / "none"))):
        lost = KubernetesService(ClusterAccess("https://127.0.0.1:1", token, ca), SETTINGS, {})
        with pytest.raises(SourceError, match="see SWITCHYARD_KUBERNETES_TOKEN_FILE"):
            await lost.read({})


def listed(*slices: dict[str, Any], **settings: Any) -> Any:
    typed = [msgspec.convert(one, EndpointSlice) for one in slices]
    return listing_of(typed, {}, {**SETTINGS, **settings}, {})


def test_a_pod_in_several_slices_is_one_replica() -> None:
    v6 = endpoint_slice("a6", endpoint("llm-a", "2001:db8::1"), addressType="IPv6")
    going = endpoint("llm-a", "10.0.0.1", conditions={"terminating": True})
    found = listed(v6, endpoint_slice("b", endpoint("llm-a", "10.0.0.1")), endpoint_slice("c", going))
    assert {name: entry.url for name, entry in found.entries.items()} == {"llm-a": "http://10.0.0.1:8000"}
    assert not found.leaving
    assert listed(v6).entries["llm-a"].url == "http://[2001:db8::1]:8000"


def test_names_of_endpoints_without_pods_and_of_long_ones() -> None:
    bare = {"addresses": ["10.0.0.9"]}
    v6 = endpoint_slice("a6", {"addresses": ["2001:db8::1"]}, addressType="IPv6")
    long = endpoint("x" * 80)
    names = set(listed(endpoint_slice("s", bare, long), v6).entries)
    assert {"10.0.0.9", "2001-0db8-0000-0000-0000-0000-0000-0001"} < names
    assert {len(name) for name in names} == {8, 39, 53}


def test_ports_by_name_number_and_alone() -> None:
    two = endpoint_slice(
        "s", endpoint("a"), ports=[{"name": "http", "port": 1}, {"name": "metrics", "port": 2}]
    )
    assert listed(two, port="metrics").entries["a"].url == "http://10.0.0.1:2"
    assert listed(two, port="9000").entries["a"].url == "http://10.0.0.1:9000"
    with pytest.raises(SourceError, match=r"not just one port \(http, metrics\): set kubernetes.port"):
        listed(two)
    with pytest.raises(SourceError, match='no port of the service has the name "x"; there is http, metrics'):
        listed(two, port="x")


def test_empty_addresses_are_no_list_and_no_endpoints_are_none() -> None:
    with pytest.raises(SourceError, match="an endpoint of slice s has no address"):
        listed(endpoint_slice("s", {**endpoint("a"), "addresses": []}))
    assert not listed(endpoint_slice("s"), endpoint_slice("t", endpoints=[], ports=None)).entries


def test_the_zone_is_the_site_unless_a_label_says_it() -> None:
    zoned = endpoint_slice("s", endpoint("a", zone="eu-West-1A"), labels={"z": "rack"})
    assert listed(zoned).entries["a"].site == "eu-west-1a"
    assert listed(zoned, labels={"site": "z"}).entries["a"].site == "rack"


async def test_a_token_that_has_expired_is_told_and_its_successor_on_disk_is_taken(
    server: ApiServer, make: Callable[..., KubernetesService], tmp_path: Path
) -> None:
    kind = make()
    server.takes = "t2"
    with pytest.raises(SourceError, match="does not accept the token: see SWITCHYARD_KUBERNETES_TOKEN_FILE"):
        await kind.read({})
    (tmp_path / "token").write_text("t2\n")
    assert set((await kind.read({})).entries) == {"llm-a", "llm-b"}
    (tmp_path / "token").unlink()
    with pytest.raises(
        SourceError, match=r"no access to a cluster: .*/token: No such file or directory; see"
    ):
        await kind.read({})


async def test_a_server_that_drips_is_no_list_within_the_time(
    server: ApiServer, make: Callable[..., KubernetesService], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubernetes, "REQUEST_S", 0.3)
    server.faults.append("drip")
    with pytest.raises(SourceError, match="did not answer within"):
        await make().read({})


async def test_storms_of_410_end_and_ask_for_no_more_than_they_must(
    server: ApiServer, make: Callable[..., KubernetesService]
) -> None:
    server.faults += [web.Response(status=410) for _ in range(20)]
    with pytest.raises(SourceError, match="answers 410 for endpoint slices"):
        await make().read({})
    assert len(server.asked) == 2, "once in pages, and once in one piece"


async def test_bookmarks_alone_ring_nobody(server: ApiServer, make: Callable[..., KubernetesService]) -> None:
    kind = make()
    await kind.read({})
    watching = asyncio.create_task(ring(kind))
    await asyncio.wait_for(server.watched.wait(), 5)
    for _ in range(50):
        server._tell("BOOKMARK", {})
    server.put(endpoint_slice("s2", endpoint("llm-z", "10.0.0.9")))
    assert await asyncio.wait_for(watching, 5) == "rings"


async def test_after_an_hour_of_500_and_half_of_the_pods_gone_none_is_taken_for_gone(
    server: ApiServer, make: Callable[..., KubernetesService]
) -> None:
    """The list of then is believed as any other: by what is there, not by what was seen lately."""
    pods = [endpoint(f"llm-{number}", f"10.0.1.{number + 1}") for number in range(10)]
    server.slices.clear()
    server.put(endpoint_slice("s1", *pods))
    kind = make()
    listing = await kind.read({})
    own = {name: OwnReplica(entry, ready=True, gone=False) for name, entry in listing.entries.items()}
    memory, _ = reconcile(Memory(), listing, own, (), 0.0)
    for second in range(2, 3600, 2):
        memory, plan = reconcile(memory, None, own, (), float(second))
        assert not plan.remove | plan.drain
    server.put(endpoint_slice("s1", *pods[:4]))
    for second in (3601.0, 3603.0, 3605.0):
        memory, plan = reconcile(memory, await kind.read({}), own, (), second)
        assert not plan.remove | plan.drain
    assert plan.frozen.startswith("the source lists 4 only: 6 replicas")
