"""Sending: one message to one destination, and what it answered in words.

Every address is judged when it is dialled, after its name was looked up; no redirect is followed; what a
receiver answers is cut and never taken for anything but words.
"""

import asyncio
import os
import ssl
import time
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import NamedTuple

import aiohttp

from controlplane.alerts import destination_url, formats, mail, signing
from controlplane.alerts.message import AlertMessage
from controlplane.alerts.send_result import SendResult
from controlplane.models import AlertDestination
from controlplane.probes.prober import new_session
from routing.contract.address_policy import DeniedAddress
from routing.contract.version import VERSION
from routing.tls import credentials

TIMEOUT_S = 10.0
MOST_ANSWER = 200
"""Bytes of an answer that are read, for its words."""
LONGEST_RETRY_AFTER_S = 3600.0
"""A receiver that asks to wait longer is asked again all the same."""


class OutgoingRequest(NamedTuple):
    url: str
    headers: dict[str, str]
    body: bytes


async def send(row: AlertDestination, message: AlertMessage) -> SendResult:
    """Raises nothing for what is wrong at the other end, or with the settings."""
    if row.kind == AlertDestination.DestinationKind.EMAIL:
        return await mail.send(row, message)
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
            result = _judged(response.status, response.reason or "", said)
            return result._replace(retry_after_s=_retry_after_s(response))
    except TimeoutError:
        return SendResult(False, f"no answer within {TIMEOUT_S:.0f} s")
    except aiohttp.ClientConnectorError as error:
        return SendResult(False, _of_connection(error))
    except DeniedAddress as error:
        return SendResult(False, _denied(error))
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return SendResult(False, str(error) or type(error).__name__)


def _retry_after_s(response: aiohttp.ClientResponse) -> float:
    """Of a 429 or 503 (RFC 9110 section 10.2.3): seconds, or a date."""
    given = response.headers.get("Retry-After", "").strip()
    if response.status not in (429, 503) or not given:
        return 0.0
    try:
        wait_s = float(given) if given.isdecimal() else parsedate_to_datetime(given).timestamp() - time.time()
    except ValueError:
        return 0.0
    return min(max(wait_s, 0.0), LONGEST_RETRY_AFTER_S)


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
