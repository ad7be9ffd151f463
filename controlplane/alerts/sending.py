"""Sending: one message to one destination, and what it answered in words.

Every address is judged when it is dialled, after its name was looked up; no redirect is followed; what a
receiver answers is cut and never taken for anything but words.
"""

import asyncio
import os
import smtplib
import ssl
import time
from datetime import UTC, datetime
from typing import NamedTuple

import aiohttp
from django.conf import settings
from django.core.mail import EmailMessage

from controlplane.alerts import destination_url, formats, signing
from controlplane.alerts.message import AlertMessage
from controlplane.models import AlertDestination
from controlplane.probes.prober import new_session
from routing.contract.address_policy import DeniedAddress
from routing.contract.version import VERSION
from routing.tls import credentials

TIMEOUT_S = 10.0
MOST_ANSWER = 200
"""Bytes of an answer that are read, for its words."""
NO_MAIL_SERVER = "no mail server is set: set SWITCHYARD_SMTP_URL"


class SendResult(NamedTuple):
    taken: bool
    words: str
    """What was answered, or why there was no answer."""


class OutgoingRequest(NamedTuple):
    url: str
    headers: dict[str, str]
    body: bytes


async def send(row: AlertDestination, message: AlertMessage) -> SendResult:
    """Raises nothing for what is wrong at the other end, or with the settings."""
    if row.kind == AlertDestination.DestinationKind.EMAIL:
        return await asyncio.to_thread(_mail, row, message)
    try:
        request = request_of(row, message)
    except ValueError as error:
        return SendResult(False, str(error))
    return await _post(request)


def request_of(row: AlertDestination, message: AlertMessage) -> OutgoingRequest:
    """Raises ValueError in words."""
    target = destination_url.resolved(row.url)
    headers = {"Content-Type": "application/json", "User-Agent": f"switchyard/{VERSION}"}
    if row.credential:
        try:
            headers["Authorization"] = f"Bearer {credentials.read_token(row.credential).decode()}"
        except ValueError as error:
            raise ValueError(f"the credential {row.credential} {error}") from None
    if row.kind == AlertDestination.DestinationKind.SLACK:
        return OutgoingRequest(target.url, headers, formats.slack_body(message))
    if row.kind == AlertDestination.DestinationKind.ALERTMANAGER:
        url = f"{target.url.rstrip('/').removesuffix('/api/v2/alerts')}/api/v2/alerts"
        return OutgoingRequest(url, headers, formats.alertmanager_body(message, datetime.now(UTC)))
    body = formats.webhook_body(message)
    signed = formats.signature_fields(message.id, body, time.time(), signing.keys_of(row))
    return OutgoingRequest(target.url, {**headers, **signed}, body)


async def _post(request: OutgoingRequest) -> SendResult:
    try:
        async with (
            asyncio.timeout(TIMEOUT_S),
            new_session() as session,
            session.post(
                request.url, headers=request.headers, data=request.body, allow_redirects=False
            ) as response,
        ):
            said = (await response.content.read(MOST_ANSWER)).decode("utf-8", "replace").strip()
            return _judged(response.status, response.reason or "", said)
    except TimeoutError:
        return SendResult(False, f"no answer within {TIMEOUT_S:.0f} s")
    except aiohttp.ClientConnectorError as error:
        return SendResult(False, _of_connection(error))
    except DeniedAddress as error:
        return SendResult(False, _denied(error))
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return SendResult(False, str(error) or type(error).__name__)


def _judged(status: int, reason: str, said: str) -> SendResult:
    answer = f"it answered {status} {reason}".rstrip()
    if 300 <= status < 400:
        return SendResult(False, f"{answer}: redirects are not followed, give the URL it leads to")
    printable = "".join(each if each.isprintable() else " " for each in said)
    return SendResult(200 <= status < 300, f"{answer}: {printable}" if printable else answer)


def _of_connection(error: aiohttp.ClientConnectorError) -> str:
    cause = error.os_error
    if isinstance(cause, DeniedAddress):
        return _denied(cause)
    if isinstance(cause, ssl.SSLError):  # its errno is not the system's
        words = getattr(cause, "verify_message", "") or (cause.reason or str(cause)).replace("_", " ").lower()
        return f"no TLS with {error.host}:{error.port}: {words}"
    words = os.strerror(cause.errno) if cause.errno and cause.errno > 0 else str(cause)
    return f"no connection to {error.host}:{error.port}: {words}"


def _denied(error: DeniedAddress) -> str:
    try:
        destination_url.refuse(str(error))
    except ValueError as words:
        return str(words)
    return str(error)


def _mail(row: AlertDestination, message: AlertMessage) -> SendResult:
    """In a thread. The message's id is that of the e-mail, so that one that comes twice can be told."""
    if not settings.EMAIL_HOST:
        return SendResult(False, NO_MAIL_SERVER)
    mail = EmailMessage(
        formats.email_subject(message),
        formats.email_text(message),
        to=list(row.to),
        headers={"Message-ID": f"<{message.id}@switchyard>", "Auto-Submitted": "auto-generated"},
    )
    try:
        mail.send()
    except smtplib.SMTPRecipientsRefused as error:
        return SendResult(False, f"the mail server refuses {', '.join(sorted(error.recipients))}")
    except smtplib.SMTPResponseException as error:
        said = error.smtp_error.decode("utf-8", "replace") if isinstance(error.smtp_error, bytes) else ""
        return SendResult(False, f"the mail server answered {error.smtp_code} {said}".rstrip())
    except (OSError, smtplib.SMTPException) as error:
        return SendResult(False, f"no mail server at {settings.EMAIL_HOST}: {error}")
    return SendResult(True, "the mail server took it")
