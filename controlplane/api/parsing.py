"""JSON bodies, read strictly: no NaN, no name twice in one object, errors with their place."""

import json
from collections.abc import Mapping
from typing import IO, Any

import orjson
from rest_framework import exceptions, parsers

LARGEST_BODY = 4 * 1024 * 1024


class JSONParser(parsers.BaseParser):
    media_type = "application/json"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        data = stream.read(LARGEST_BODY + 1)
        if len(data) > LARGEST_BODY:
            raise exceptions.ParseError(f"A body may have at most {LARGEST_BODY} bytes.")
        try:
            content = orjson.loads(data)
        except orjson.JSONDecodeError as error:
            raise exceptions.ParseError(f"The body is not JSON: {error}.") from error
        _reject_duplicate_keys(data)
        return content


def _reject_duplicate_keys(data: bytes) -> None:
    """orjson keeps the last of two fields of one name; which of them was meant, nobody can know."""
    try:
        json.loads(data, object_pairs_hook=_unique_keys)
    except RecursionError:
        raise exceptions.ParseError("The body is nested too deeply.") from None


def _unique_keys(pairs: list[tuple[str, Any]]) -> None:
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            raise exceptions.ParseError(f'"{name[:60]}" is written twice in one object: keep one of them.')
        seen.add(name)
