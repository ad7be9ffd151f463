"""Every error is ``application/problem+json``, whoever found it."""

from typing import Any

import pytest
from django.test import Client

from controlplane.services import fleets
from tests.controlplane.conftest import Api

pytestmark = pytest.mark.any_database


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("get", "/api/v1/nothing", None, 404),
        ("get", "/api/v1/fleets/", None, 404),
        ("put", "/api/v1/fleets", b"{}", 405),
        ("options", "/api/v1/fleets", None, 405),
        ("post", "/api/v1/fleets", b"{", 400),
        ("post", "/api/v1/fleets", b"NaN", 400),
        ("post", "/api/v1/fleets", b"[]", 400),
        ("post", "/api/v1/fleets", b'"text"', 400),
        ("post", "/api/v1/fleets", b"\xff", 400),
        ("post", "/api/v1/fleets", b"[" * 100_000, 400),
        ("post", "/api/v1/fleets", b"{}", 400),
        ("post", "/api/v1/fleets", b" " * (4 * 1024 * 1024 + 1), 400),
        ("post", "/nowhere", b"{}", 404),
    ],
)
def test_shape(api: Api, method: str, path: str, body: bytes | None, status: int) -> None:
    options: dict[str, Any] = {} if body is None else {"data": body, "content_type": "application/json"}
    answer = getattr(Client(), method)(path, headers=api.headers, **options)
    assert answer.status_code == status
    assert answer["Content-Type"] == "application/problem+json"
    problem = answer.json()
    assert problem.keys() == {"type", "title", "status", "detail", "errors"}
    assert problem["status"] == status
    assert problem["detail"]


def test_another_content_type_is_415(api: Api) -> None:
    for content_type in (
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
    ):
        answer = Client().post("/api/v1/fleets", b"x=1", content_type=content_type, headers=api.headers)
        assert answer.status_code == 415
        assert answer["Content-Type"] == "application/problem+json"


def test_another_accept_is_406(api: Api) -> None:
    answer = api.get("/fleets", accept="application/xml")
    assert answer.status_code == 406
    assert answer["Content-Type"] == "application/problem+json"
    assert "send Accept: application/json" in answer.json()["detail"]


def test_without_a_token_the_answer_says_how_one_is_sent(anonymous: Api) -> None:
    command = ".venv/bin/switchyard createtoken USER NAME"
    wanted = f"Send a token, Authorization: Token sy_… ({command} prints one), or log in."
    assert anonymous.get("/fleets").json()["detail"] == wanted
    bearer = anonymous.get("/fleets", authorization="Bearer sy_x")
    assert bearer.status_code == 401
    assert bearer.json()["detail"] == f'The Authorization scheme "Bearer" is not supported. {wanted}'


def test_a_defect_of_ours_is_500_and_tells_nothing(
    api: Api, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    def broken(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("the secret inner state")

    monkeypatch.setattr(fleets, "create", broken)
    answer = api.post("/fleets", {"name": "x", "protocol": "generic"})
    assert answer.status_code == 500
    assert answer["Content-Type"] == "application/problem+json"
    assert b"secret" not in answer.content
    assert "the secret inner state" in caplog.text


def test_a_person_gets_plain_words() -> None:
    answer = Client().get("/nowhere", headers={"accept": "text/html"})
    assert answer.status_code == 404
    assert answer["Content-Type"].startswith("text/")


def test_an_unknown_host_is_refused() -> None:
    answer = Client().get("/livez", headers={"host": "evil.example"})
    assert answer.status_code == 400
    assert "127.0.0.1" in answer["Content-Security-Policy"]
