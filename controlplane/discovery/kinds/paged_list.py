"""Paged list of Kubernetes's API: which request comes next, and what its answer means. Pure.

Theory. A long list comes in pages, each with a token for the next one. A token expires (410): then the list
is begun anew, once, in one piece. All pages are of one version of the list, so none of it is used unless all
of it has come: a list that breaks off, or that says that more remains without saying where, is none.
"""

from collections.abc import Mapping
from typing import Any, Generic, TypeVar
from urllib.parse import urlencode

import msgspec

from controlplane.discovery.kinds.kind import SourceError
from routing.contract.decode_errors import DECODE_ERRORS

PAGE = 500
MOST_PAGES = 1000
LONGEST_WAIT_S = 60.0
WAIT_S = 1.0
"""After a 429 or 503 that does not say how long."""

Item = TypeVar("Item")


class ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")
    remaining_item_count: int | None = None


class _Page(msgspec.Struct, Generic[Item]):
    metadata: ListMeta
    items: list[Item] | None = None


class AskedToWait(SourceError):
    """429, or 503 with Retry-After: nothing is asked before ``wait_s`` are over."""

    def __init__(self, words: str, wait_s: float) -> None:
        super().__init__(words)
        self.wait_s = wait_s


class PagedList(Generic[Item]):
    """One list. Ask :attr:`query`, feed what is answered, until :attr:`is_whole`."""

    def __init__(self, what: str, item: type[Item], selector: Mapping[str, str]) -> None:
        """``what``: in messages, as ``endpoint slices``."""
        self._what = what
        self._decoder = msgspec.json.Decoder(_Page[item])  # type: ignore[valid-type]  # it is given
        self._selector = ",".join(f"{name}={value}" for name, value in sorted(selector.items()))
        self._token = ""
        self._paged = True
        self._pages = 0
        self.items: list[Item] = []
        self.version = ""
        self.is_whole = False

    @property
    def query(self) -> str:
        fields: dict[str, Any] = {"labelSelector": self._selector} if self._selector else {}
        if self._paged:
            fields["limit"] = PAGE
        if self._token:
            fields["continue"] = self._token
        return urlencode(fields)

    def feed(self, status: int, retry_after: str, body: bytes) -> None:
        """Raises SourceError."""
        if status == 410 and self._paged:
            self._token, self._paged, self.items = "", False, []
            return
        check_status(self._what, status, retry_after)
        try:
            page: _Page[Item] = self._decoder.decode(body)
        except DECODE_ERRORS:
            raise SourceError(f"the API server's list of {self._what} breaks off, or is none") from None
        self.items += page.items or []
        self.version = page.metadata.resource_version or self.version
        self._token = page.metadata.continue_
        self._pages += 1
        if not self._token and page.metadata.remaining_item_count:
            raise SourceError(f"the API server's list of {self._what} is truncated")
        if self._token and (self._pages >= MOST_PAGES or not self._paged):
            raise SourceError(f"the API server's list of {self._what} does not end")
        self.is_whole = not self._token


def check_status(what: str, status: int, retry_after: str) -> None:
    """Raises SourceError for what is no answer, with its cure."""
    if status == 200:
        return
    if status == 429 or (status == 503 and retry_after):
        wait_s = float(retry_after) if retry_after.isdecimal() else WAIT_S
        raise AskedToWait("the API server asks to wait (429)", min(max(wait_s, WAIT_S), LONGEST_WAIT_S))
    cures = {
        401: "does not accept the token: see SWITCHYARD_KUBERNETES_TOKEN_FILE",
        403: f"does not let this service account list {what}: give it a role with get, list and watch",
        404: f"knows no {what}",
    }
    raise SourceError(f"the API server {cures.get(status, f'answers {status} for {what}')}")
