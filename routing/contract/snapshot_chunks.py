"""Snapshot chunks: how a fleet's snapshot lies in Redis, in pieces of at most CHUNK_REPLICAS replicas.

Up to that many a snapshot is one field, ``body``, as it has always been. A larger one has its replicas in
fields of their own, ``replicas:0``, ``replicas:1`` …, each a JSON list, and ``chunks``, how many there are.
Its ``body`` is the rest of the snapshot, with the number of replicas in place of the list: an older proxy
refuses that and keeps the table that it has, and does not take it for a fleet without replicas.

All fields of a key are written in one step, with its version. Whoever reads them one by one compares the
version each time.

A snapshot that comes as a whole (the old form in Redis, a table from the master) is decoded without its
replicas first (:class:`EncodedSnapshot`), then these in steps of as many.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from routing.contract.table import FleetSnapshot, ReplicaSpec, decode_snapshot, encode

CHUNK_REPLICAS = 500

CHUNKS = "chunks"
"""Field of the hash: number of chunks; missing: ``body`` is the whole snapshot."""


def chunk_field(number: int) -> str:
    """Field of the hash with the chunk of this number, from 0."""
    return f"replicas:{number}"


class SnapshotHead(FleetSnapshot, frozen=True, kw_only=True):
    """The rest of a snapshot whose replicas are in chunks."""

    replicas: int  # type: ignore[assignment]  # how many there are in all chunks


class EncodedSnapshot(FleetSnapshot, frozen=True, kw_only=True):
    """A snapshot whose replicas are not decoded yet."""

    replicas: list[msgspec.Raw]  # type: ignore[assignment]


_encoded_json: msgspec.json.Decoder[EncodedSnapshot] = msgspec.json.Decoder(EncodedSnapshot)
_replica_json: msgspec.json.Decoder[ReplicaSpec] = msgspec.json.Decoder(ReplicaSpec)
_replica_msgpack: msgspec.msgpack.Decoder[ReplicaSpec] = msgspec.msgpack.Decoder(ReplicaSpec)


def from_json_in_steps(data: bytes) -> Generator[None, None, FleetSnapshot]:
    """As :func:`routing.contract.table.decode_snapshot`, in steps. Raises as that does."""
    return _decoded_in_steps(_encoded_json.decode(data), _replica_json.decode)


def from_msgpack_in_steps(encoded: EncodedSnapshot) -> Generator[None, None, FleetSnapshot]:
    """The snapshot, in steps. Raises as :func:`decode_chunk`."""
    return _decoded_in_steps(encoded, _replica_msgpack.decode)


def _decoded_in_steps(
    encoded: EncodedSnapshot, decode: Callable[[msgspec.Raw], ReplicaSpec]
) -> Generator[None, None, FleetSnapshot]:
    replicas: list[ReplicaSpec] = []
    for at in range(0, len(encoded.replicas), CHUNK_REPLICAS):
        if at:
            yield
        replicas += [decode(raw) for raw in encoded.replicas[at : at + CHUNK_REPLICAS]]
    return FleetSnapshot(**_rest(encoded), replicas=replicas)


def stored_fields(snapshot: FleetSnapshot) -> dict[str, bytes]:
    """Field → value, of all that a snapshot is stored as beside its version. ``body`` comes first."""
    replicas = snapshot.replicas
    if len(replicas) <= CHUNK_REPLICAS:
        return {"body": encode(snapshot)}
    chunks = [replicas[at : at + CHUNK_REPLICAS] for at in range(0, len(replicas), CHUNK_REPLICAS)]
    rest = _rest(snapshot)
    fields = {"body": msgspec.json.encode(SnapshotHead(**rest, replicas=len(replicas)))}
    fields[CHUNKS] = str(len(chunks)).encode()
    return fields | {chunk_field(number): msgspec.json.encode(chunk) for number, chunk in enumerate(chunks)}


def stored_arguments(snapshot: FleetSnapshot) -> tuple[bytes, list[str | bytes]]:
    """The body, and the last arguments of ``STORE_IF_NEWER``: field and value of each chunk, in turn."""
    fields = stored_fields(snapshot)
    return fields.pop("body"), [part for field in fields.items() for part in field]


def number_of_chunks(field: bytes | None) -> int:
    """0: the body is the whole snapshot. Raises ValueError."""
    number = 0 if field is None else int(field)
    if number < 0:
        raise ValueError(f"{number} chunks")
    return number


def decode_chunk(data: bytes) -> list[ReplicaSpec]:
    """Raises as :func:`routing.contract.table.decode_snapshot`."""
    return msgspec.json.decode(data, type=list[ReplicaSpec])


def joined(body: bytes, chunks: Iterable[Sequence[ReplicaSpec]]) -> FleetSnapshot:
    """The snapshot of a body and its chunks. Raises as ``decode_snapshot``, and if replicas are missing."""
    head = msgspec.json.decode(body, type=SnapshotHead)
    replicas = [spec for chunk in chunks for spec in chunk]
    if len(replicas) != head.replicas:
        raise msgspec.ValidationError(f"{len(replicas)} replicas in its chunks, and not {head.replicas}")
    return FleetSnapshot(**_rest(head), replicas=replicas)


def decode_fields(fields: Mapping[bytes, bytes]) -> FleetSnapshot:
    """All fields of a key at once. Raises as :func:`joined`."""
    body = fields.get(b"body", b"")
    try:
        number = number_of_chunks(fields.get(CHUNKS.encode()))
    except ValueError as error:
        raise msgspec.ValidationError(str(error)) from None
    if not number:
        return decode_snapshot(body)
    return joined(body, (decode_chunk(fields.get(chunk_field(at).encode(), b"")) for at in range(number)))


def _rest(snapshot: FleetSnapshot) -> dict[str, Any]:
    return {name: getattr(snapshot, name) for name in FleetSnapshot.__struct_fields__ if name != "replicas"}
