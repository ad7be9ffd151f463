"""OpenAPI: every operation also documents its problem+json answers."""

from drf_spectacular.openapi import AutoSchema


class ProblemSchema(AutoSchema):  # type: ignore[misc]
    pass
