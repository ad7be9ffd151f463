"""Origin and Host check of inner listeners, against cross-site requests (CSRF) and DNS rebinding.

A browser on the same machine can be made to send requests to it: one of another site carries an ``Origin``,
and one to a name that was made to lead to this machine (DNS rebinding) carries that name as its ``Host``.
"""

import ipaddress


def refusal(origin: str | None, host: str, loopback: bool) -> str | None:
    """Why not, in words; ``None``: it may pass.

    ``origin``, ``host``: values of these fields; ``loopback``: whether the listener is open to its machine
    only.
    """
    if origin is not None:
        return "requests of web pages are not answered here"
    if loopback and not _is_local_name(host):
        return "the Host of a request to a loopback listener must be an IP address or localhost"
    return None


def _is_local_name(authority: str) -> bool:
    host = authority.rpartition("]")[0].lstrip("[") if "[" in authority else authority.partition(":")[0]
    if host in ("", "localhost"):
        return True
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
