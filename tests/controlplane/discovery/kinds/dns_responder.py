"""A small DNS server on 127.0.0.1, over UDP and TCP, that answers from a table and has faults on request."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset


@dataclass
class DnsResponder:
    records: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    """Name → type → records as text. A name that is not there does not exist."""
    faults: dict[str, str] = field(default_factory=dict)
    """Type → ``silent``, ``garbage``, ``loop`` (an alias of itself), or the name of an rcode."""
    ttl_s: int = 5
    over_udp: int = 512
    """An answer with more bytes is truncated over UDP."""
    tcp: bool = True
    address: str = ""
    asked: list[str] = field(default_factory=list)
    """``UDP A``, ``TCP SRV`` …"""

    def answer(self, wire: bytes, transport: str) -> bytes | None:
        query = dns.message.from_wire(wire)
        question = query.question[0]
        kind = dns.rdatatype.to_text(question.rdtype)
        self.asked.append(f"{transport} {kind}")
        fault = self.faults.get(kind, "")
        if fault == "silent":
            return None
        if fault == "garbage":
            return wire[:2] + b"\x84\x00" + b"\xff" * 40
        reply = dns.message.make_response(query)
        if fault == "loop":
            own = question.name.to_text()
            reply.answer.append(dns.rrset.from_text_list(question.name, 5, "IN", "CNAME", [own]))
            return reply.to_wire()
        if fault:
            reply.set_rcode(dns.rcode.from_text(fault))
            return reply.to_wire()
        name = question.name.to_text(omit_final_dot=True).lower()
        here = self.records.get(name)
        if here is None:
            reply.set_rcode(dns.rcode.NXDOMAIN)
            return reply.to_wire()
        if "CNAME" in here:
            reply.answer.append(dns.rrset.from_text_list(question.name, 5, "IN", "CNAME", here["CNAME"]))
            target = here["CNAME"][0]
            here, owner = self.records[target.rstrip(".")], target
        else:
            owner = question.name.to_text()
        if kind in here:
            reply.answer.append(dns.rrset.from_text_list(owner, self.ttl_s, "IN", kind, here[kind]))
        whole = reply.to_wire(max_size=65535)
        if transport == "UDP" and len(whole) > self.over_udp:
            reply.answer.clear()
            reply.flags |= dns.flags.TC
            return reply.to_wire()
        return whole


class _Udp(asyncio.DatagramProtocol):
    def __init__(self, responder: DnsResponder) -> None:
        self._responder = responder

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def datagram_received(self, data: bytes, address: tuple[str, int]) -> None:
        reply = self._responder.answer(data, "UDP")
        if reply is not None:
            self._transport.sendto(reply, address)


@asynccontextmanager
async def running(responder: DnsResponder) -> AsyncIterator[DnsResponder]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if responder.tcp:
            (length,) = struct.unpack("!H", await reader.readexactly(2))
            reply = responder.answer(await reader.readexactly(length), "TCP")
            if reply is not None:
                writer.write(struct.pack("!H", len(reply)) + reply)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    loop = asyncio.get_running_loop()
    udp, _ = await loop.create_datagram_endpoint(lambda: _Udp(responder), local_addr=("127.0.0.1", port))
    responder.address = f"127.0.0.1:{port}"
    try:
        yield responder
    finally:
        udp.close()
        server.close()
