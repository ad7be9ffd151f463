"""JSON bodies, read by orjson: no NaN, no duplicate of Python's leniencies, errors with their place."""

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
            raise exceptions.ParseError(f"A body holds at most {LARGEST_BODY} bytes.")
        try:
            return orjson.loads(data)
        except orjson.JSONDecodeError as error:
            raise exceptions.ParseError(f"The body is not JSON: {error}.") from error
