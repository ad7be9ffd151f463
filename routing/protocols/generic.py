"""Anything else over HTTP: work is the number of body bytes, errors are RFC 9457 problems."""

from http import HTTPStatus

import msgspec


def error_body(status: int, code: str, message: str) -> bytes:
    title = HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else "Error"
    problem = {"type": "about:blank", "title": title, "status": status, "detail": message, "code": code}
    return msgspec.json.encode(problem)
