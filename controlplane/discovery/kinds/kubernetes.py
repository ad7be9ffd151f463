"""Kubernetes: replicas behind a service, from its EndpointSlices.

The list is the only truth. A watch rings when something changes, so that the list is asked for at once; a
watch that loses events, dies, or is told that its version is too old (410) costs the time until the next
resync, and nothing else. Labels of pods are listed beside, where settings name labels.
"""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlencode

import aiohttp
import msgspec

from controlplane.discovery.fleet_view import OwnRow
from controlplane.discovery.kinds.endpoint_slices import EndpointSlice, ObjectMeta, PodLabels, listing_of
from controlplane.discovery.kinds.kind import SourceError
from controlplane.discovery.kinds.paged_list import AskedToWait, PagedList, check_status
from controlplane.discovery.listing import Listing
from routing.contract.decode_errors import DECODE_ERRORS

REQUEST_S = 10.0
WATCH_S = 240
"""The API server ends a watch after this; it is begun anew."""
CONNECT_S = 3.0
MOST_BYTES = 64 * 1024 * 1024
_METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_RINGS = frozenset({"ADDED", "MODIFIED", "DELETED"})

Item = TypeVar("Item")


class ClusterAccess(NamedTuple):
    url: str
    token_file: str
    """Read anew for each request, for tokens are replaced. Empty: none is sent."""
    ca_file: str
    """Empty: the system's."""


class _Spec(msgspec.Struct):
    selector: dict[str, str] | None = None


class _Service(msgspec.Struct):
    spec: _Spec


class _Pod(msgspec.Struct):
    metadata: ObjectMeta


class _WatchEvent(msgspec.Struct):
    type: str


class KubernetesService:
    wants_own = False

    def __init__(
        self,
        access: ClusterAccess,
        settings: Mapping[str, Any],
        template: Mapping[str, Any],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``settings``: the group ``kubernetes`` of a source, with its defaults."""
        self._access = access
        self._clock = clock
        self._settings = settings
        self._template = template
        self._core = f"/api/v1/namespaces/{settings['namespace']}"
        self._slices = f"/apis/discovery.k8s.io/v1/namespaces/{settings['namespace']}/endpointslices"
        self._selector = {"kubernetes.io/service-name": settings["service"]}
        self._session: aiohttp.ClientSession | None = None
        self._version = ""
        """Of the last list, from which the next watch begins; empty: not listed yet."""
        self._listed = asyncio.Event()
        self._not_before = 0.0

    async def read(self, own: Mapping[str, OwnRow]) -> Listing:
        if (left_s := self._not_before - self._clock()) > 0:
            raise AskedToWait("the API server asks to wait (429)", left_s)
        try:
            slices = await self._all("endpoint slices", self._slices, EndpointSlice, self._selector)
            pods = await self._pod_labels() if self._settings["labels"] else {}
        except AskedToWait as asked:
            self._not_before = self._clock() + asked.wait_s
            raise
        self._version = slices.version
        self._listed.set()
        return listing_of(slices.items, pods, self._settings, self._template)

    async def changes(self) -> AsyncIterator[None]:
        await self._listed.wait()
        with suppress(aiohttp.ClientError, OSError, TimeoutError):
            async for _ in self._watch():
                yield None

    async def _watch(self) -> AsyncIterator[None]:
        query = {
            "labelSelector": ",".join(f"{name}={value}" for name, value in self._selector.items()),
            "watch": "1",
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_S),
        }
        self._listed.clear()  # the next watch begins at a newer list
        limits = aiohttp.ClientTimeout(total=WATCH_S + REQUEST_S, sock_connect=CONNECT_S)
        async with self._get(f"{self._slices}?{urlencode(query)}", limits) as response:
            check_status("endpoint slices", response.status, response.headers.get("Retry-After", ""))
            async for line in _lines(response.content):
                kind = _event(line)
                if kind in _RINGS:
                    yield None
                elif kind != "BOOKMARK":
                    return

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def _pod_labels(self) -> PodLabels:
        """Of the pods that the service selects."""
        path = f"{self._core}/services/{self._settings['service']}"
        status, retry_after, body = await self._answer(path)
        check_status(f"service {self._settings['service']}", status, retry_after)
        try:
            selector = msgspec.json.decode(body, type=_Service).spec.selector
        except DECODE_ERRORS:
            raise SourceError("the API server's answer about the service is none") from None
        if not selector:
            return {}
        pods = await self._all("pods", f"{self._core}/pods", _Pod, selector, _METADATA_ONLY)
        return {pod.metadata.name: pod.metadata.labels or {} for pod in pods.items}

    async def _all(
        self, what: str, path: str, item: type[Item], selector: Mapping[str, str], accept: str = ""
    ) -> PagedList[Item]:
        """Raises SourceError."""
        found = PagedList(what, item, selector)
        while not found.is_whole:
            found.feed(*await self._answer(f"{path}?{found.query}", accept))
        return found

    async def _answer(self, path: str, accept: str = "") -> tuple[int, str, bytes]:
        """Status, Retry-After, body. Raises SourceError."""
        limits = aiohttp.ClientTimeout(total=REQUEST_S, sock_connect=CONNECT_S)
        try:
            async with self._get(path, limits, accept) as response:
                body = await response.content.read(MOST_BYTES + 1)
                while len(body) <= MOST_BYTES and (more := await response.content.read(MOST_BYTES)):
                    body += more
        except TimeoutError:
            raise SourceError(f"the API server did not answer within {REQUEST_S:.0f} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise SourceError(f"the API server at {self._access.url}: {error}") from None
        if len(body) > MOST_BYTES:
            raise SourceError(f"the API server's answer has more than {MOST_BYTES} bytes")
        return response.status, response.headers.get("Retry-After", ""), body

    def _get(self, path: str, limits: aiohttp.ClientTimeout, accept: str = "") -> Any:
        """A response's context. Raises SourceError where the token or the CA cannot be read."""
        headers = {"Accept": accept or "application/json"}
        try:
            if self._access.token_file:
                headers["Authorization"] = f"Bearer {Path(self._access.token_file).read_text().strip()}"
            session = self._session = self._session or aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=_trust(self._access)), cookie_jar=aiohttp.DummyCookieJar()
            )
        except (OSError, ValueError) as error:
            raise SourceError(
                f"no access to a cluster: {_why(error)}; see SWITCHYARD_KUBERNETES_TOKEN_FILE and "
                "SWITCHYARD_KUBERNETES_CA_FILE"
            ) from None
        return session.get(
            f"{self._access.url}{path}", headers=headers, timeout=limits, allow_redirects=False
        )


def _why(error: OSError | ValueError) -> str:
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _trust(access: ClusterAccess) -> ssl.SSLContext | bool:
    if not access.url.startswith("https:"):
        return True
    return ssl.create_default_context(cafile=access.ca_file or None)


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Of any length up to MOST_BYTES: a slice with a hundred endpoints is one."""
    rest = b""
    async for chunk in content.iter_any():
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line
        if len(rest) > MOST_BYTES:
            return


def _event(line: bytes) -> str:
    """Its type; empty: it is none."""
    try:
        return msgspec.json.decode(line, type=_WatchEvent).type
    except DECODE_ERRORS:
        return ""
