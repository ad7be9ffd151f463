"""From the outbox to real receivers: at least once, in order, with one id, and not to denied addresses."""

import base64
import hashlib
import hmac
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from django.utils import timezone

from controlplane.alerts import delivery, destinations, last_evaluation, mail, signing, tasks
from controlplane.models import AlertDelivery, AlertDestination
from controlplane.services.errors import Invalid
from routing.contract import address_policy
from routing.contract.address_policy import AddressPolicy
from routing.contract.address_rules import AddressRules
from tests.controlplane.alerts.conftest import Evaluated, deliver_all
from tests.controlplane.alerts.pictures import fleet, picture, replica
from tests.controlplane.alerts.receivers import HttpReceiver, dripping, mail_receiver
from tests.ports import free_port

Make = Callable[..., AlertDestination]
DOWN = picture(fleet(replica("a", "down"), replica("b", "down")))
WELL = picture()


@pytest.fixture
def fired(evaluated: Evaluated, llm: str) -> Callable[[], None]:
    return lambda: evaluated.see(DOWN, 50) and None


def make_due() -> None:
    """As if the wait before the next attempt were over."""
    AlertDelivery.objects.update(due_at=timezone.now() - timedelta(seconds=1))


def test_a_webhook_gets_a_signed_body(
    fired: Callable[[], None], destination: Make, receiver: HttpReceiver
) -> None:
    row = destination()
    fired()
    assert deliver_all() == 1
    (got,) = receiver.got
    assert got.path == "/hook"
    message = got.json
    assert (message["rule"], message["status"], message["fleet"]) == ("no_eligible_replica", "firing", "llm")
    assert message["id"] == got.headers["webhook-id"]
    secret = base64.b64decode(signing.secret_shown_once(row).removeprefix("whsec_"))
    signed = f"{message['id']}.{got.headers['webhook-timestamp']}.".encode() + got.body
    wanted = base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()
    assert got.headers["webhook-signature"] == f"v1,{wanted}"
    assert deliver_all() == 0


def test_a_receiver_that_fails_is_asked_again_with_the_same_id_and_in_order(
    evaluated: Evaluated, fired: Callable[[], None], destination: Make, receiver: HttpReceiver
) -> None:
    destination()
    receiver.status = lambda: 503
    fired()
    evaluated.see(WELL, 45)
    assert AlertDelivery.objects.count() == 2
    for attempt in range(3):
        assert deliver_all() == 1, attempt
        assert deliver_all() == 0, "not before its time"
        make_due()
    row = AlertDestination.objects.get()
    assert row.failing_since is not None
    assert row.last_answer == "it answered 503 Service Unavailable: ok"
    receiver.status = lambda: 200
    assert [deliver_all(), deliver_all()] == [1, 1]
    assert [one.json["status"] for one in receiver.got] == 4 * ["firing"] + ["resolved"]
    assert len(set(receiver.ids)) == 2
    row.refresh_from_db()
    assert row.failing_since is None


def test_a_worker_that_is_killed_in_between_loses_nothing(
    fired: Callable[[], None], destination: Make, receiver: HttpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has sent, and not written so: the same message comes once more, with its id."""
    destination()
    fired()

    def killed(*_: object) -> None:
        raise SystemExit

    with monkeypatch.context() as patched:
        patched.setattr(delivery, "_record", killed)
        with pytest.raises(SystemExit):
            deliver_all()
    assert deliver_all() == 0, "somebody may be at it"
    AlertDelivery.objects.update(claimed_until=timezone.now() - timedelta(seconds=1))
    assert deliver_all() == 1
    assert len(receiver.got) == 2
    assert len(set(receiver.ids)) == 1


def test_a_lost_redis_makes_it_late_and_loses_nothing(
    fired: Callable[[], None],
    destination: Make,
    receiver: HttpReceiver,
    evaluated: Evaluated,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The task that was asked for is lost with the queue; the next tick finds the row."""
    destination()
    monkeypatch.setattr(tasks.deliver, "apply_async", _connection_lost)
    evaluated.evaluator._deliver = tasks.deliver_soon
    fired()
    assert receiver.got == []
    tasks.tick()
    assert len(receiver.got) == 1


def test_celery_evaluates_only_where_nobody_else_does(
    fresh_stores: None, redis_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluated: list[int] = []
    monkeypatch.setattr(tasks._stand_in, "evaluate", lambda: evaluated.append(1))
    last_evaluation.note()
    tasks.tick()
    assert evaluated == []
    redis_client.pexpire(last_evaluation.KEY, last_evaluation.LASTS_MS - 25_000)
    tasks.tick()
    redis_client.delete(last_evaluation.KEY)
    tasks.tick()
    assert evaluated == [1, 1]


def _connection_lost(**_: object) -> None:
    raise ConnectionError("Redis is away")


def test_others_are_told_while_one_does_not_answer(
    fired: Callable[[], None], destination: Make, receiver: HttpReceiver
) -> None:
    destination("dead", url="http://127.0.0.1:9/")
    destination("pager")
    fired()
    assert deliver_all() == 2
    assert len(receiver.got) == 1
    assert "no connection to 127.0.0.1:9" in AlertDestination.objects.get(name="dead").last_answer


def test_what_is_wrong_with_tls_is_said_as_such(
    fired: Callable[[], None], destination: Make, receiver: HttpReceiver
) -> None:
    """The error's number is one of TLS: as one of the system it would read "Operation not permitted"."""
    row = destination(url=receiver.url.replace("http:", "https:"))
    fired()
    deliver_all()
    row.refresh_from_db()
    assert row.last_answer.startswith("no TLS with 127.0.0.1:")
    assert "permitted" not in row.last_answer


def test_slack_and_alertmanager_get_what_they_take(
    fired: Callable[[], None], destination: Make, receiver: HttpReceiver
) -> None:
    destination("slack", kind="slack", url=f"{receiver.url}/services/T0/B0/secret")
    destination("am", kind="alertmanager", url=receiver.url)
    fired()
    deliver_all()
    by_path = {one.path: one.json for one in receiver.got}
    slack = by_path["/services/T0/B0/secret"]
    assert slack["text"] == "No eligible replica, llm: no replica takes requests: 2 down"
    assert slack["attachments"][0]["color"] == "#c62828"
    (alert,) = by_path["/api/v2/alerts"]
    assert alert["labels"] == {"alertname": "no_eligible_replica", "severity": "critical", "fleet": "llm"}
    assert alert["startsAt"] < alert["endsAt"]


def test_an_email_is_sent_and_a_refused_address_is_named(
    fired: Callable[[], None], destination: Make, settings: Any
) -> None:
    port = free_port()
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", port
    row = destination("mail", kind="email", url="", to=["anna@example.com"])
    with mail_receiver(port) as mailbox:
        fired()
        assert deliver_all() == 1
        (sent,) = mailbox.mails
        message = AlertDelivery.objects.get()
        assert (
            " ".join(sent["Subject"].split())
            == "[Switchyard critical] No eligible replica, llm: no replica takes requests: 2 down"
        )
        assert sent["Message-ID"] == f"<{message.uid}@switchyard>"
        assert mailbox.recipients == ["anna@example.com"]
        mailbox.refuses = "anna@example.com"
        refused = destinations.test(row.name, "anna").words
        assert refused == "the mail server refuses anna@example.com (550 no such mailbox)"
    assert destinations.test(row.name, "anna").words.startswith("no mail server at 127.0.0.1")
    settings.EMAIL_HOST = ""
    assert destinations.test(row.name, "anna").words == mail.NO_MAIL_SERVER


def test_a_test_says_what_was_answered(fresh_stores: None, destination: Make, receiver: HttpReceiver) -> None:
    destination()
    assert destinations.test("pager", "anna")[:2] == (True, "it answered 200 OK: ok")
    assert receiver.got[0].json["test"] is True
    receiver.status, receiver.words = (lambda: 404), b"no such\nchannel"
    assert destinations.test("pager", "anna")[:2] == (False, "it answered 404 Not Found: no such channel")


def test_redirects_are_not_followed(fresh_stores: None, destination: Make, receiver: HttpReceiver) -> None:
    receiver.status, receiver.location = (lambda: 302), f"{receiver.url}/elsewhere"
    destination()
    result = destinations.test("pager", "anna")
    assert not result.taken
    assert "redirects are not followed" in result.words
    assert [one.path for one in receiver.got] == ["/hook"]


@pytest.fixture
def denied_loopback() -> Iterator[Callable[[], None]]:
    before = address_policy.in_force()
    yield lambda: address_policy.use(AddressPolicy(AddressRules(denied=("127.0.0.0/8", "::1/128")))) and None
    address_policy.use(before)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_name_that_leads_to_a_denied_address_is_not_dialled(
    host: str,
    fresh_stores: None,
    destination: Make,
    receiver: HttpReceiver,
    denied_loopback: Callable[[], None],
) -> None:
    """It did not when it was written."""
    destination(url=receiver.url.replace("127.0.0.1", host))
    denied_loopback()
    result = destinations.test("pager", "anna")
    assert not result.taken
    assert "nothing is sent there" in result.words
    assert receiver.got == []


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://169.254.169.254/latest", "nothing is sent there"),
        ("http://metadata.google.internal/", "metadata service"),
        ("http://[::ffff:169.254.169.254]/", "nothing is sent there"),
        ("ftp://example.com/", "begins with https://"),
        ("https://user:secret@example.com/", "user name or password"),
        ("https://example.com/#part", "remove it"),
        ("env:SWITCHYARD_SECRET_KEY", "reference"),
        ("", "give its URL"),
    ],
)
def test_a_url_that_cannot_be_is_refused_at_its_field(url: str, words: str, fresh_stores: None) -> None:
    with pytest.raises(Invalid) as refused:
        destinations.create({"name": "bad", "kind": "webhook", "url": url}, "anna")
    (error,) = refused.value.errors
    assert error.pointer == "/url"
    assert words in error.detail
    assert "secret" not in error.detail


def test_a_name_of_a_denied_address_is_refused_when_it_is_written(
    fresh_stores: None, denied_loopback: Callable[[], None]
) -> None:
    denied_loopback()
    with pytest.raises(Invalid) as refused:
        destinations.create({"name": "bad", "kind": "webhook", "url": "http://localhost:9/x"}, "anna")
    assert "resolves to a forbidden address" in refused.value.errors[0].detail


def test_a_url_may_be_a_reference(
    fresh_stores: None, destination: Make, receiver: HttpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    destination(url="env:PAGER_URL", credential="env:PAGER_TOKEN")
    assert (
        destinations.test("pager", "anna").words
        == "env:PAGER_URL is an environment variable that is not set here"
    )
    monkeypatch.setenv("PAGER_URL", f"{receiver.url}/secret?token=1")
    monkeypatch.setenv("PAGER_TOKEN", "abc")
    assert destinations.test("pager", "anna").taken
    assert receiver.got[0].path == "/secret?token=1"
    assert receiver.got[0].headers["authorization"] == "Bearer abc"


def test_a_new_secret_ends_the_old_one_and_a_former_key_signs_too(
    fresh_stores: None, destination: Make, settings: Any
) -> None:
    row = destination()
    before = signing.secret_shown_once(row)
    written = destinations.update("pager", {"new_secret": True}, "anna")
    assert written.secret not in ("", before)
    former, settings.SECRET_KEY_FALLBACKS = settings.SECRET_KEY, [settings.SECRET_KEY]
    settings.SECRET_KEY = f"another {former}"
    written.row.refresh_from_db()
    new, old = signing.keys_of(written.row)
    assert base64.b64encode(old).decode() == written.secret.removeprefix("whsec_")
    assert new != old


def test_waits_between_attempts_grow_to_a_limit_and_differ() -> None:
    rng = Random(3)
    waits = [[delivery.retry_in_s(attempts, rng) for _ in range(200)] for attempts in (1, 2, 3, 10, 1000)]
    assert [round(max(each)) for each in waits] == [5, 10, 20, 300, 300]
    assert all(min(each) >= max(each) / 2 - 0.1 * max(each) for each in waits)
    assert len(set(waits[0])) == 200


@pytest.fixture
def mails_to(settings: Any) -> Callable[[int], None]:
    def use(port: int) -> None:
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", port

    return use


def test_one_refused_address_of_several_is_named_and_the_others_get_it(
    fired: Callable[[], None], destination: Make, mails_to: Callable[[int], None]
) -> None:
    port = free_port()
    mails_to(port)
    row = destination("mail", kind="email", url="", to=["anna@example.com", "gone@example.com"])
    with mail_receiver(port) as mailbox:
        mailbox.refuses = "gone@example.com"
        fired()
        assert deliver_all() == 1
        assert mailbox.recipients == ["anna@example.com"]
        assert deliver_all() == 0, "it is not sent to those who have it again"
    row.refresh_from_db()
    words = "the mail server took it, and refuses gone@example.com (550 no such mailbox)"
    assert (row.last_taken, row.last_answer) == (True, words)


def test_a_mail_server_that_drips_holds_nobody_up(
    fired: Callable[[], None],
    destination: Make,
    receiver: HttpReceiver,
    mails_to: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A byte each moment: no single read takes too long, and the greeting never ends."""
    monkeypatch.setattr(mail, "WITHIN_S", 0.5)
    with dripping() as port:
        mails_to(port)
        row = destination("mail", kind="email", url="", to=["anna@example.com"])
        destination("pager")
        fired()
        began = time.monotonic()
        assert deliver_all() == 2
        assert time.monotonic() - began < 5
    assert len(receiver.got) == 1
    row.refresh_from_db()
    assert row.last_answer == "the mail server at 127.0.0.1 did not answer in time"


def test_a_mail_server_without_starttls_is_said_as_such(
    fired: Callable[[], None], destination: Make, mails_to: Callable[[int], None], settings: Any
) -> None:
    port = free_port()
    mails_to(port)
    settings.EMAIL_USE_TLS = True
    row = destination("mail", kind="email", url="", to=["anna@example.com"])
    with mail_receiver(port) as mailbox:
        said = destinations.test(row.name, "anna").words
        assert not mailbox.mails
    assert said.startswith(
        "the mail server at 127.0.0.1 cannot do what SWITCHYARD_SMTP_URL asks for: STARTTLS"
    )


def test_a_mail_server_whose_tls_fails_is_said_as_such(
    destination: Make, mails_to: Callable[[int], None], settings: Any, fresh_stores: None
) -> None:
    port = free_port()
    mails_to(port)
    settings.EMAIL_USE_SSL = True
    row = destination("mail", kind="email", url="", to=["anna@example.com"])
    with mail_receiver(port):
        said = destinations.test(row.name, "anna").words
    assert said.startswith("no TLS with the mail server at 127.0.0.1: ")


@pytest.mark.parametrize(
    ("asks", "least_s", "most_s"), [("90", 89, 90), ("soon", 0, 5), ("90000", 3599, 3600)]
)
def test_a_receiver_that_asks_to_wait_is_left_alone_for_so_long(
    fired: Callable[[], None],
    destination: Make,
    receiver: HttpReceiver,
    asks: str,
    least_s: float,
    most_s: float,
) -> None:
    destination("slack", kind="slack")
    receiver.status, receiver.retry_after = lambda: 429, asks
    fired()
    began = timezone.now()
    assert deliver_all() == 1
    wait_s = (AlertDelivery.objects.get().due_at - began).total_seconds()
    assert least_s <= wait_s <= most_s + 1


def test_what_alertmanager_finds_wrong_is_told_in_its_words(
    fired: Callable[[], None], destination: Make, receiver: HttpReceiver
) -> None:
    row = destination("am", kind="alertmanager", url=receiver.url)
    receiver.status, receiver.words = lambda: 400, b'{"code":601,"message":"bad"}'
    fired()
    deliver_all()
    row.refresh_from_db()
    assert row.last_answer == 'it answered 400 Bad Request: {"code":601,"message":"bad"}'
    assert AlertDelivery.objects.get().done_at is None
    receiver.status = lambda: 200
    make_due()
    deliver_all()
    assert AlertDelivery.objects.get().delivered
