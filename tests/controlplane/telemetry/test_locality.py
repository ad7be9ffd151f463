"""Sites as operators set them → what the page says of them."""

from dataclasses import replace

from controlplane.services import fleets
from controlplane.telemetry import db_snapshot, frame_builder
from controlplane.telemetry.merge import MergeState, ReceivedReport, merge
from tests.controlplane.telemetry import reports


def test_a_replicas_site_and_its_fleets_policy_are_read(db: None) -> None:
    listed = [
        {"name": name, "url": f"http://{name}", "site": site} for name, site in (("a", "e"), ("b", "w"))
    ]
    policy = {"strategy": "round_robin", "locality": {"spill_above": 0.7}}
    fleets.create({"name": "digits", "protocol": "openai", "replicas": listed, "policy": policy}, "w")
    heard = ReceivedReport(reports.report(fleets=[reports.fleet()], site="e"), 0.1)
    read = db_snapshot.read()
    assert [one.site for one in read.fleets[0].replicas] == ["e", "w"]
    ready = [replace(one, health="ready") for one in read.fleets[0].replicas]
    read.fleets[0].replicas[:] = ready
    built = frame_builder.build(read, merge(MergeState(), [heard], 0.0), {}, {}, sequence=1, at=0.0)
    far = built.fleets["digits"].replicas[1]
    assert far.why.endswith("; at w: asked while e is more than 70 % busy")
