"""Replicas' credentials at a whole proxy: what log, /status, /metrics and the copy on disk say of them."""

import time
from collections.abc import Callable
from pathlib import Path

from routing.contract.table import ReplicaSpec
from tests.proxy_process import Proxy, Publisher, Replica, fleet_file, snapshot, until

TOKEN = "s3cret-of-replica-a"


def test_a_proxy_that_runs_from_a_file_probes_with_it_too(
    tmp_path: Path, replicas: list[Replica], proxy: Callable[..., Proxy]
) -> None:
    a, b = replicas
    token = tmp_path / "a.token"
    entries = [
        {"name": "a", "url": a.url, "credential": f"file:{token}"},
        {"name": "b", "url": b.url},
    ]
    probe = {"path": "/health", "period_s": 0.5, "rise": 1}
    file = fleet_file(tmp_path / "fleets.yaml", replicas, replicas=entries, probe=probe)
    running = proxy("--fleets", str(file), "--workers", "1", "--probe")
    until(lambda: running.replicas("echo")["b"]["eligible"], "b has passed")
    # It would be asked without its token, were it only its probe that fails.
    row = running.replicas("echo")["a"]
    words = f"credential file:…/{token.name} cannot be read: No such file or directory (host "
    assert (row["eligible"], row["asked_in_workers"]) == (False, 0)
    assert any(reason.startswith(words) for reason in row["reasons"])
    until(lambda: f"replica a of fleet echo is checking: {words}" in running.log, "its probes say so")
    assert f"replica a of fleet echo gets no requests: {words}" in running.log
    assert {running.get() for _ in range(4)} == {(200, "b")}
    assert not a.authorizations

    token.write_text(TOKEN + "\n")
    until(lambda: running.replicas("echo")["a"]["eligible"], "it is there")
    until(lambda: (200, "a") in {running.get() for _ in range(4)}, "it is asked")
    assert a.probed
    assert set(a.authorizations) == {f"Bearer {TOKEN}"}
    assert set(b.authorizations) == {None}
    shown = running.admin("/status")[1] + running.admin("/metrics")[1] + running.log
    assert TOKEN not in shown


def test_under_a_control_plane_the_reference_alone_is_kept(
    tmp_path: Path, replicas: list[Replica], proxy: Callable[..., Proxy], publisher: Publisher, redis_url: str
) -> None:
    a, _ = replicas
    (tmp_path / "a.token").write_text(TOKEN)
    spec = ReplicaSpec(uid="u", name="a", url=a.url, credential=f"file:{tmp_path}/a.token")
    publisher.fleet(snapshot(1, [], replicas=[spec]))
    publisher.manifest(1)
    state = tmp_path / "state"
    running = proxy("--redis", redis_url, "--state-dir", str(state), "--workers", "1").ready()
    saved = state / "fleet-echo.json"
    until(saved.exists, "the table is on disk")
    assert running.get() == (200, "a")
    assert a.authorizations == [f"Bearer {TOKEN}"]
    until(lambda: publisher.reported(), "a report")
    kept = saved.read_text() + running.admin("/status")[1] + running.log
    kept += repr(publisher.reported())
    assert f"file:{tmp_path}/a.token" in kept
    assert TOKEN not in kept

    (tmp_path / "a.token").unlink()
    words = "credential file:…/a.token cannot be read: No such file or directory (host "

    def told() -> bool:
        [fleet] = publisher.reported()[0]["fleets"]
        return bool(fleet["replicas"][0].get("no_credential", "").startswith(words))

    until(told, "reports say so")
    (tmp_path / "a.token").write_text("newer")
    began = time.monotonic()
    until(lambda: running.get() == (200, "a") and a.authorizations[-1] == "Bearer newer", "the newer one")
    assert time.monotonic() - began < 5


def test_what_the_proxy_itself_keeps_is_sent_to_nobody(
    tmp_path: Path, replicas: list[Replica], proxy: Callable[..., Proxy], publisher: Publisher, redis_url: str
) -> None:
    a, b = replicas
    state = tmp_path / "state"
    state.mkdir()
    (state / "note").write_text(TOKEN)
    (tmp_path / "link").symlink_to(state / "note")
    specs = [
        ReplicaSpec(uid="u", name="a", url=a.url, credential=f"file:{tmp_path}/link"),
        ReplicaSpec(uid="v", name="b", url=b.url),
    ]
    publisher.fleet(snapshot(1, [], replicas=specs))
    publisher.manifest(1)
    running = proxy("--redis", redis_url, "--state-dir", str(state), "--workers", "1").ready()
    assert {running.get() for _ in range(4)} == {(200, "b")}
    assert not a.authorizations
    assert "credential file:…/link lies in Switchyard's own data folder" in running.log
