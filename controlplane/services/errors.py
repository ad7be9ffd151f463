"""Why a write was refused. The API turns these into problem+json, commands into one line each."""

from collections.abc import Sequence
from typing import NamedTuple

from routing.contract.field_rules import path_of


class FieldError(NamedTuple):
    pointer: str
    """JSON pointer (RFC 6901) into what was sent; empty: the whole of it."""
    detail: str

    @property
    def words(self) -> str:
        """The detail after the field that it is about: ``policy.timeouts.total_s: must be …``."""
        path = path_of(self.pointer)
        return f"{path}: {self.detail}" if path else self.detail


class ServiceError(Exception):
    """A verb was refused. Nothing has been written."""

    status = 400

    def __init__(self, detail: str, errors: Sequence[FieldError] = ()) -> None:
        super().__init__(detail)
        self.detail = detail
        self.errors = tuple(errors)


class Invalid(ServiceError):
    """Some fields are wrong; ``errors`` says which and why."""

    status = 400

    def __init__(self, errors: Sequence[FieldError]) -> None:
        one = errors[0].words if len(errors) == 1 else f"{len(errors)} fields are wrong."
        super().__init__(one, errors)


class NotFound(ServiceError):
    status = 404


class Forbidden(ServiceError):
    """The account's role does not reach that far."""

    status = 403


class Conflict(ServiceError):
    """What was asked for does not fit what is there (a name is taken, a class is in use)."""

    status = 409


class PreconditionFailed(ServiceError):
    """The caller's version is not the current one: somebody else wrote first."""

    status = 412
