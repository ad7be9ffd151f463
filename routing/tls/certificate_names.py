"""Subject alternative names of a certificate, asked after it was refused because of its name.

OpenSSL says only that the wanted name is not among them. So a connection is opened for nothing but the
certificate: the chain is verified all the same, no request is sent.
"""

import asyncio

from routing.tls.context_cache import new_context

LIMIT_S = 1.0


async def fetch_certificate_names(address: str, port: int, ca: str, server_name: str) -> list[str]:
    """Of the certificate shown at this IP address; empty when it cannot be learned in a second."""
    try:
        context = await asyncio.to_thread(new_context, ca)
        context.check_hostname = False
        async with asyncio.timeout(LIMIT_S):
            _, writer = await asyncio.open_connection(address, port, ssl=context, server_hostname=server_name)
    except (OSError, ValueError, TimeoutError):
        return []
    certificate = writer.get_extra_info("peercert")
    writer.transport.abort()
    return [value for _, value in certificate.get("subjectAltName", ())]
