"""Two teams, each with a fleet on a host of its own, and what one of them may not write."""

from typing import Any

THEIRS = "http://10.0.0.7:8000"
OWN = "http://10.0.0.8:8000"
LABELS = {"team": "search"}


def refused(answer: Any, pointer: str) -> str:
    assert answer.status_code == 403, answer.content
    error = answer.json()["errors"][0]
    assert error["pointer"] == pointer
    for name in ("auction", "secret-name", "ads"):
        assert name not in answer.content.decode()
    return error["detail"]


def new(url: str, **settings: Any) -> dict[str, Any]:
    row = {"name": "a", "url": url}
    return {"name": "mine", "protocol": "generic", "labels": LABELS, "replicas": [row], **settings}
