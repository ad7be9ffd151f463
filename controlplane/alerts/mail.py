"""E-mail (SMTP): one message to the addresses of a destination, and what the mail server said of each.

It runs in a daemon thread with a limit of its own: a server that goes on sending a byte now and then never
runs into the limit of one read, and would hold up all other destinations.
"""

import smtplib
import ssl

from django.conf import settings
from django.core.mail import EmailMessage, get_connection
from django.core.mail.backends.smtp import EmailBackend
from django.core.mail.message import sanitize_address

from controlplane.alerts import formats
from controlplane.alerts.message import AlertMessage
from controlplane.alerts.send_result import SendResult
from controlplane.daemon_threads import in_daemon_thread
from controlplane.models import AlertDestination

WITHIN_S = 25.0
NO_MAIL_SERVER = "no mail server is set: set SWITCHYARD_SMTP_URL"


async def send(row: AlertDestination, message: AlertMessage) -> SendResult:
    """Raises nothing for what is wrong with the mail server."""
    if not settings.EMAIL_HOST:
        return SendResult(False, NO_MAIL_SERVER)
    host = settings.EMAIL_HOST
    try:
        refused = await in_daemon_thread(lambda: _sent(row, message), within_s=WITHIN_S)
    except smtplib.SMTPRecipientsRefused as error:
        return SendResult(False, f"the mail server refuses {_addresses(error.recipients)}")
    except smtplib.SMTPResponseException as error:
        words = f"the mail server answered {error.smtp_code} {_text(error.smtp_error)}"
        return SendResult(False, words.rstrip())
    except smtplib.SMTPNotSupportedError as error:
        words = f"the mail server at {host} cannot do what SWITCHYARD_SMTP_URL asks for: {error}"
        return SendResult(False, words)
    except ssl.SSLError as error:
        why = getattr(error, "verify_message", "") or (error.reason or str(error)).replace("_", " ").lower()
        return SendResult(False, f"no TLS with the mail server at {host}: {why}")
    except TimeoutError:
        return SendResult(False, f"the mail server at {host} did not answer in time")
    except smtplib.SMTPServerDisconnected as error:
        return SendResult(False, f"the mail server at {host} broke off: {error}")
    except (OSError, smtplib.SMTPException) as error:
        return SendResult(False, f"no mail server at {host}: {error}")
    if refused:
        return SendResult(True, f"the mail server took it, and refuses {_addresses(refused)}")
    return SendResult(True, "the mail server took it")


def _sent(row: AlertDestination, message: AlertMessage) -> dict[str, tuple[int, bytes]]:
    """Addresses that were refused while others were taken, with the server's answer. The message's id is that
    of the e-mail, so that one that comes twice can be told."""
    mail = EmailMessage(
        formats.email_subject(message),
        formats.email_text(message),
        to=list(row.to),
        headers={"Message-ID": f"<{message.id}@switchyard>", "Auto-Submitted": "auto-generated"},
    )
    connection = get_connection()
    if not isinstance(connection, EmailBackend):
        mail.send()
        return {}
    try:
        connection.open()
        encoding = mail.encoding or settings.DEFAULT_CHARSET
        sender = sanitize_address(mail.from_email, encoding)
        to = [sanitize_address(one, encoding) for one in mail.recipients()]
        # As the backend does, but for what it forgets: who was refused.
        server = connection.connection
        assert server is not None
        body = mail.message().as_bytes(linesep="\r\n")  # type: ignore[call-arg]  # Django's own message
        return server.sendmail(sender, to, body)
    finally:
        connection.close()


def _addresses(refused: dict[str, tuple[int, bytes]]) -> str:
    return ", ".join(f"{name} ({code} {_text(said)})" for name, (code, said) in sorted(refused.items()))


def _text(said: bytes | str) -> str:
    return said.decode("utf-8", "replace") if isinstance(said, bytes) else said
