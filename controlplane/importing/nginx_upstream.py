"""One nginx ``upstream`` block as a fleet: its servers as replicas, its method as the strategy."""

import re

from controlplane.importing.model import Draft, Fields, FleetDraft, SourcedValue, SourceLocation, UniqueNames
from controlplane.importing.nginx_file import Directive
from controlplane.importing.nginx_unsupported import AFFINITY, reason

_TIME = re.compile(r"(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+)s)?(?:(\d+)ms)?\Z")
_UNITS_S = (604_800.0, 86_400.0, 3600.0, 60.0, 1.0, 0.001)
_MOST_WEIGHT = 1000
_LONGEST_NUMBER = 40
"""Characters. Python refuses to read numbers of thousands of digits."""
_MAX_FAILS, _FAIL_TIMEOUT_S = 1, 10.0
"""nginx's defaults."""


def seconds(text: str) -> float | None:
    """A time as nginx writes it (``90``, ``1m30s``, ``500ms``); None when it is none."""
    if len(text) > _LONGEST_NUMBER:
        return None
    if text.isdecimal():
        return float(text)
    match = _TIME.match(text.replace(" ", ""))
    if not text or match is None:
        return None
    return sum(int(number) * unit for number, unit in zip(match.groups(), _UNITS_S, strict=True) if number)


def fill(fleet: FleetDraft, block: Directive, scheme: str, base: str, draft: Draft) -> None:
    """Put an upstream's servers and method into a fleet. ``base``: path before every request's path."""
    names, servers, methods = UniqueNames(), [], []
    for one in block.block or ():
        if one.name == "server":
            servers.append(one)
        elif one.name in _METHODS:
            methods.append(one)
        else:
            draft.note_dropped(one.place, str(one), reason(one.name))
    _strategy(fleet, methods, draft)
    for server in servers:
        # In an upstream a server's port is 80 where none is given, whatever is spoken there.
        address = server.args[0] if block.name != "upstream" else _with_port(server.args[0])
        replica = _replica(server, f"{scheme}://{address}{base}", names, draft)
        if replica is not None:
            fleet.replicas.append(replica)
    _ejection(fleet, servers, draft)
    _slow_start(fleet, servers, draft)


_AFFINITY = ("ip_hash", "hash", "sticky")
_METHODS = ("least_conn", "random", "least_time", *_AFFINITY)


def _strategy(fleet: FleetDraft, methods: list[Directive], draft: Draft) -> None:
    """``sticky`` stands beside a method; of several methods nginx takes the last."""
    if not methods:
        fleet.policy()["strategy"] = SourcedValue("round_robin", "nginx's default")
        return
    chosen = [one for one in methods if one.name != "sticky"][-1:]
    by_load = [one for one in chosen if one.name not in _AFFINITY]
    instead = f"{by_load[0]} picks for each request" if by_load else _BY_DEFAULT
    for one in methods:
        if one in by_load:
            _by_load(fleet, one, draft)
        elif one.name == "sticky" or one in chosen:
            draft.note_dropped(one.place, str(one), f"{AFFINITY}; {instead}")
        else:
            draft.note_dropped(one.place, str(one), f"{chosen[0]} follows, and nginx takes the last")


_BY_DEFAULT = "replicas are picked by load, with the default strategy"


def _by_load(fleet: FleetDraft, method: Directive, draft: Draft) -> None:
    said = str(method)
    where = f"{said}, {method.place}"
    if method.name == "least_conn":
        fleet.policy()["strategy"] = SourcedValue("least_connections", where)
    elif method.name == "least_time":
        fleet.policy()["strategy"] = SourcedValue("least_response_time", where)
        draft.note_changed(method.place, said, "response times are those of whole responses")
    elif method.name == "random" and method.args[:1] == ("two",):
        fleet.policy()["strategy"] = SourcedValue("power_of_two", where)
        if len(method.args) > 1 and method.args[1] != "least_conn":
            draft.note_changed(method.place, said, "the two are compared by requests in flight")
    else:
        fleet.policy()["strategy"] = SourcedValue("random", where)


def _with_port(address: str) -> str:
    return address if ":" in address.rpartition("]")[2] else f"{address}:80"


def _replica(server: Directive, url_said: str, names: UniqueNames, draft: Draft) -> Fields | None:
    address, parameters = server.args[0], server.args[1:]
    if address.startswith("unix:"):
        draft.note_dropped(
            server.place, str(server), "replicas are reached by host and port, not by Unix sockets"
        )
        return None
    said = str(server) if "@" not in address else f"server …@{address.rpartition('@')[2]}"
    url = draft.url(server.place, said, url_said)
    if url is None:
        return None
    replica: Fields = {
        "name": names.take(url.partition("://")[2].replace(":", "-"), f"r{server.place.line}"),
        "url": SourcedValue(url, f"server {address}, {server.place}"),
    }
    if url.startswith("http://") and url.partition("://")[2].partition("/")[0].endswith(":443"):
        why = "port 443 gets plain HTTP requests: write https:// if it uses TLS"
        draft.note_changed(server.place, str(server), why)
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        _parameter(replica, key, value, server, draft)
    return replica


def _parameter(replica: Fields, key: str, value: str, server: Directive, draft: Draft) -> None:
    said = f"{key}={value}" if value else key
    if key in ("weight", "max_conns"):
        _number(replica, key, value, server, draft)
    elif key == "down":
        replica["admin_state"] = SourcedValue("maintenance", "down")
    elif key == "drain":
        replica["admin_state"] = SourcedValue("draining", "drain")
    elif key == "backup":
        replica["admin_state"] = SourcedValue("maintenance", "backup in nginx: activate it when it is needed")
        draft.note_dropped(
            server.place,
            f"{server.args[0]} backup",
            "there are no standby replicas: it is in the file in maintenance; activate it when needed",
        )
    elif key not in ("max_fails", "fail_timeout", "slow_start"):
        draft.note_dropped(server.place, f"{server.args[0]} {said}", reason(key))


def _number(replica: Fields, key: str, value: str, server: Directive, draft: Draft) -> None:
    number = int(value) if value.isdecimal() and len(value) <= _LONGEST_NUMBER else 0
    if key == "weight" and 1 <= number <= _MOST_WEIGHT:
        replica["weight"] = SourcedValue(number, f"weight={value}")
    elif key == "max_conns" and 1 <= number <= 1_000_000:
        replica["max_concurrency"] = SourcedValue(number, f"max_conns={value}")
        draft.note_changed(
            server.place,
            f"{server.args[0]} max_conns={value}",
            "requests above max_concurrency wait in the fleet's queue",
        )
    elif key != "max_conns" or value != "0":  # 0 is nginx's own default: no limit
        draft.note_dropped(server.place, f"{server.args[0]} {key}={value}", "the number is out of range")


def _ejection(fleet: FleetDraft, servers: list[Directive], draft: Draft) -> None:
    """``max_fails`` and ``fail_timeout`` are a fleet's in Switchyard: carried where the servers agree."""
    counted = _in_use(servers)
    rules = {_rule(server) for server in counted}
    for server in servers:
        if _fails(server) and _rule(server) not in rules:
            what = f"{server.args[0]} {_fails(server)}"
            draft.note_dropped(
                server.place, what, "a fleet has one ejection rule, here that of the servers in use"
            )
    telling = [server for server in counted if _fails(server)]
    if not telling:
        return
    place, what = telling[0].place, _fails(telling[0])
    if len(rules) > 1:
        draft.note_dropped(
            place, "max_fails, fail_timeout", "the servers differ; a fleet has one ejection rule"
        )
        return
    count, base_s = _rule(telling[0])
    timeout = _of(telling[0], "fail_timeout")
    ejection = fleet.policy().setdefault("ejection", {})
    if not count:
        ejection["max_ejected_percent"] = SourcedValue(0, f"{what}: no ejection, {place}")
        return
    ejection["consecutive_failures"] = SourcedValue(min(count, 1000), f"{what}, {place}")
    if base_s is None or not 0.1 <= base_s <= 300:
        draft.note_dropped(place, f"fail_timeout={timeout}", "an ejection lasts 0.1 to 300 s at first")
    else:
        ejection["base_s"] = SourcedValue(base_s, "fail_timeout" if timeout else "nginx's own fail_timeout")
    draft.note_changed(
        place, what, "failures in a row are counted, each ejection doubles, and half the fleet stays in use"
    )


def _in_use(servers: list[Directive]) -> list[Directive]:
    """Those that take requests from the start; all, where none does."""
    return [one for one in servers if not {"down", "backup"} & set(one.args[1:])] or servers


def _fails(server: Directive) -> str:
    """What a server says about failures, in nginx's words; empty when nothing."""
    return " ".join(arg for arg in server.args[1:] if arg.startswith(("max_fails=", "fail_timeout=")))


def _rule(server: Directive) -> tuple[int, float | None]:
    """Failures until a server is taken out, and for how many seconds; None when that is no time."""
    fails, timeout = _of(server, "max_fails"), _of(server, "fail_timeout")
    count = int(fails) if fails.isdecimal() and len(fails) <= _LONGEST_NUMBER else _MAX_FAILS
    return count, seconds(timeout) if timeout else _FAIL_TIMEOUT_S


def _slow_start(fleet: FleetDraft, servers: list[Directive], draft: Draft) -> None:
    telling = [server for server in servers if _of(server, "slow_start")]
    if not telling:
        return
    server = telling[0]
    text = _of(server, "slow_start")
    value = seconds(text)
    said = {_of(one, "slow_start") for one in {*_in_use(servers), *telling}}
    if len(said) > 1 or value is None or value > 3600:
        draft.note_dropped(server.place, f"slow_start={text}", "one time for a whole fleet, at most 3600 s")
    else:
        fleet.policy()["slow_start_s"] = SourcedValue(value, f"slow_start={text}, {server.place}")


def _of(server: Directive, key: str) -> str:
    """A server's parameter, empty when it is not given."""
    prefix = f"{key}="
    return next((arg.removeprefix(prefix) for arg in server.args[1:] if arg.startswith(prefix)), "")


def direct(target: str, place: SourceLocation) -> Directive:
    """The upstream that a ``proxy_pass`` to an address stands for."""
    server = Directive("server", (target,), place, None)
    return Directive("proxy_pass to", (target,), place, (server,))
