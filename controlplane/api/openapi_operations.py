"""OpenAPI of every operation: its answer, its errors, its query and header parameters."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema, inline_serializer
from rest_framework import serializers as fields

from controlplane.api.errors import CONTENT_TYPE
from controlplane.api.serializers.common import ReadOnlySerializer
from controlplane.api.serializers.problems import ProblemSerializer

View = TypeVar("View", bound=Callable[..., Any])

_ERRORS = {
    400: "The body or a parameter is wrong; `errors` points at each field.",
    401: "No token or session, or one that is not known.",
    403: "The account may not do this, or the CSRF check failed.",
    404: "There is no object with that name.",
    406: "Responses are JSON only.",
    409: "It conflicts with what exists.",
    412: "The object has changed since the ETag in If-Match was read.",
    415: "Requests must be JSON.",
    429: "Too many requests; Retry-After says when to come back.",
    503: "Redis does not answer.",
}
_READING = (400, 401, 403, 404, 406, 429)
_WRITING = (*_READING, 409, 412, 415)

IF_MATCH = OpenApiParameter(
    "If-Match",
    str,
    OpenApiParameter.HEADER,
    description='ETag of the version that was read, for example `"7"`; 412 if the object has changed since.',
)
CONFIRM = OpenApiParameter(
    "confirm",
    str,
    description="Needed if all or most of what serves goes at once, or if fleets come to share a host and "
    "port and one of them exposes more than inference: the token in `confirm` of the 409.",
)
SEARCH = OpenApiParameter("search", str, description="Only rows that contain each of these words.")
PAGING = (
    OpenApiParameter("page", int, description="From 1."),
    OpenApiParameter("page_size", int, description="At most 1000; 100 when not given."),
)

CURSOR = OpenApiParameter("cursor", str, description="From the URL in `next`; not set: the newest page.")
SINCE = OpenApiParameter(
    "since",
    str,
    description="From this time on: a date, a time (UTC if it has no zone) or an age: `90m`, `24h`, `7d`.",
)
UNTIL = OpenApiParameter("until", str, description="Before this time, in the format of `since`.")


def _documented(
    operation: str,
    summary: str,
    answer: tuple[int, Any],
    errors: Iterable[int],
    parameters: Iterable[OpenApiParameter] = (),
    request: Any = None,
) -> Callable[[View], View]:
    problems: dict[Any, Any] = {
        (number, CONTENT_TYPE): OpenApiResponse(ProblemSerializer, description=_ERRORS[number])
        for number in errors
    }
    status, shape = answer
    return extend_schema(
        operation_id=operation,
        summary=summary,
        request=request,
        responses={status: shape, **problems},
        parameters=[*parameters],
    )


def reads(
    operation: str, summary: str, shape: Any, *parameters: OpenApiParameter, live: bool = False
) -> Callable[[View], View]:
    errors = (*_READING, 503) if live else _READING
    return _documented(operation, summary, (200, shape), errors, parameters)


def lists(
    operation: str, summary: str, row: type[ReadOnlySerializer], *parameters: OpenApiParameter
) -> Callable[[View], View]:
    """Pages of rows."""
    page = inline_serializer(
        f"{row.__name__.removesuffix('Serializer')}Page",
        {
            "count": fields.IntegerField(help_text="Rows on all pages."),
            "next": fields.URLField(allow_null=True),
            "previous": fields.URLField(allow_null=True),
            "results": row(many=True),
        },
    )
    return _documented(operation, summary, (200, page), _READING, (*PAGING, *parameters))


def lists_newest(
    operation: str, summary: str, row: type[ReadOnlySerializer], *parameters: OpenApiParameter
) -> Callable[[View], View]:
    """Pages of rows by cursor, newest first."""
    page = inline_serializer(
        f"{row.__name__.removesuffix('Serializer')}Newest",
        {
            "next": fields.URLField(allow_null=True, help_text="URL of the page with older rows."),
            "results": row(many=True),
        },
    )
    return _documented(operation, summary, (200, page), _READING, (CURSOR, PAGING[1], *parameters))


def creates(
    operation: str, summary: str, request: Any, shape: Any, *parameters: OpenApiParameter
) -> Callable[[View], View]:
    return _documented(operation, summary, (201, shape), _WRITING, parameters, request)


def changes(
    operation: str, summary: str, request: Any, shape: Any, *parameters: OpenApiParameter
) -> Callable[[View], View]:
    return _documented(operation, summary, (200, shape), _WRITING, (IF_MATCH, *parameters), request)


def asks(
    operation: str, summary: str, request: Any, shape: Any, *, live: bool = False
) -> Callable[[View], View]:
    """A question by POST: no setting is written. ``live``: it needs Redis."""
    errors = (*_READING, 415, 503) if live else (*_READING, 415)
    return _documented(operation, summary, (200, shape), errors, (), request)


def carries_out(
    operation: str, summary: str, request: Any, shape: Any, *parameters: OpenApiParameter
) -> Callable[[View], View]:
    """A write of several objects at once, which has no ETag."""
    errors = tuple(code for code in _WRITING if code != 412)
    return _documented(operation, summary, (200, shape), errors, parameters, request)


def deletes(operation: str, summary: str, *parameters: OpenApiParameter) -> Callable[[View], View]:
    return _documented(operation, summary, (204, None), _WRITING, (IF_MATCH, *parameters))


def removes(operation: str, summary: str) -> Callable[[View], View]:
    """A deletion of something that is never edited, and has no ETag."""
    return _documented(operation, summary, (204, None), tuple(code for code in _WRITING if code != 412))
