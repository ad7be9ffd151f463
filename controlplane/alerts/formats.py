"""Formats: one message as each kind of destination takes it. Pure.

Signature of a generic webhook: Standard Webhooks (standardwebhooks.com), which has libraries for receivers.
"""

import base64
import hashlib
import hmac
from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from controlplane.alerts.message import AlertMessage, ToldAlert

_COLOURS = {"critical": "#c62828", "warning": "#b26a00"}
_RESOLVED_COLOUR = "#2e7d32"
_LISTED = 20
AM_ENDS_AFTER_S = 300.0
"""Alertmanager resolves an alert by itself once it was not sent again for this long: five of our repeats."""


def webhook_body(message: AlertMessage) -> bytes:
    return msgspec.json.encode(message)


def signature_fields(id: str, body: bytes, now: float, keys: Sequence[bytes]) -> dict[str, str]:
    """``webhook-id``, ``webhook-timestamp`` and ``webhook-signature``: HMAC-SHA256 of ``id.timestamp.body``,
    one for each key in force, separated by spaces."""
    at = str(int(now))
    signed = b".".join((id.encode(), at.encode(), body))
    each = (base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode() for key in keys)
    return {
        "webhook-id": id,
        "webhook-timestamp": at,
        "webhook-signature": " ".join(f"v1,{one}" for one in each),
    }


def slack_body(message: AlertMessage) -> bytes:
    """An incoming webhook of Slack, and of what is compatible with it."""
    colour = _RESOLVED_COLOUR if message.status == "resolved" else _COLOURS[message.severity]
    lines = [_slack_line(one) for one in message.alerts[:_LISTED]]
    rest = len(message.alerts) - _LISTED + message.more
    if rest > 0:
        lines.append(f"… and {rest} more")
    if message.url:
        lines.append(f"<{message.url}|All alerts>")
    text = _escaped(message.text)
    attachment = {"color": colour, "fallback": text, "text": "\n".join(lines), "mrkdwn_in": ["text"]}
    return msgspec.json.encode({"text": text, "attachments": [attachment]})


def _slack_line(alert: ToldAlert) -> str:
    word = "resolved" if alert.status == "resolved" else alert.severity
    return f"*{word}* {_escaped(alert.subject)}: {_escaped(alert.why)} (since {alert.since})"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def alertmanager_body(message: AlertMessage, now: datetime) -> bytes:
    """``POST /api/v2/alerts``: each alert with its labels. One that fires ends by itself soon after it is no
    longer sent."""
    ends = (now + timedelta(seconds=AM_ENDS_AFTER_S)).isoformat().replace("+00:00", "Z")
    return msgspec.json.encode([_am_alert(message, one, ends) for one in message.alerts])


def _am_alert(message: AlertMessage, alert: ToldAlert, ends: str) -> dict[str, object]:
    labels = {
        "alertname": message.rule,
        "severity": alert.severity,
        "fleet": alert.fleet,
        "replica": alert.replica,
        "part": alert.part,
    }
    annotations = {"summary": f"{message.title}, {alert.subject}: {alert.why}", "switchyard_id": alert.id}
    said: dict[str, object] = {
        "labels": {name: value for name, value in labels.items() if value},
        "annotations": annotations,
        "startsAt": alert.since,
        "endsAt": alert.resolved_at or ends,
    }
    if message.url:
        said["generatorURL"] = message.url
    return said


def email_subject(message: AlertMessage) -> str:
    word = "resolved" if message.status == "resolved" else message.severity
    return f"[Switchyard {word}] {message.text}".replace("\r", " ").replace("\n", " ")[:200]


def email_text(message: AlertMessage) -> str:
    lines = [message.text, ""]
    for one in message.alerts:
        word = "resolved" if one.status == "resolved" else one.severity
        until = f", until {one.resolved_at}" if one.resolved_at else ""
        lines.append(f"- {word}: {one.subject}: {one.why} (since {one.since}{until})")
    if message.more:
        lines.append(f"- and {message.more} more")
    if message.url:
        lines += ["", message.url]
    return "\n".join([*lines, "", f"Message {message.id}"])
