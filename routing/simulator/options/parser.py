"""Parser of the simulator's command line: every option, its default and its help."""

import argparse
from pathlib import Path
from typing import Any, NoReturn, get_args

from routing.contract.policy import Serves
from routing.simulator import central_fifo
from routing.simulator.arrivals import STEADY
from routing.simulator.catalogue import CATALOGUE, DRAWN, TRACES
from routing.simulator.options.errors import BadSimulationOptions
from routing.simulator.options.values import (
    above,
    bursts,
    count,
    deadlines,
    rate_profile,
    replica_speeds,
    strategy_names,
    svg_path,
)


class _ArgumentParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise BadSimulationOptions(f"{message}; --help lists all options")


def simulator_parser() -> argparse.ArgumentParser:
    """All options, in groups."""
    parser = _ArgumentParser(
        prog="python -m routing.simulator",
        description="What each strategy does to latency, in virtual time, with the proxy's own objects.",
        epilog="workloads: " + "; ".join(f"{name}: {sentence}" for name, sentence in _workloads().items()),
    )
    _add_traffic(parser.add_argument_group("what arrives"))
    _add_fleet(parser.add_argument_group("who serves it"))
    _add_faults(
        parser.add_argument_group("what goes wrong (default: the last replica at a third of its speed)")
    )
    group = parser.add_argument_group("what is compared, and how that is shown")
    add = group.add_argument
    add(
        "--strategies",
        metavar="A,B",
        type=strategy_names,
        help=f"by name (default: all, and {central_fifo.NAME}, one queue that knows everything; without "
        "those that go by keys where requests have none, since they then do what least_expected_work does)",
    )
    add(
        "--parameters",
        metavar="STRATEGY.KEY=VALUE",
        action="append",
        default=[],
        help="of a strategy, for example least_expected_work.kappa=5; may be repeated",
    )
    add(
        "--from",
        dest="from_s",
        metavar="S",
        type=above(0, 86400),
        default=0.0,
        help="count only requests that arrive from this second on; default 0",
    )
    add("--shares", action="store_true", help="show each replica's share of the requests as well")
    add("--json", action="store_true", help="write the results as JSON, seconds, and nothing else")
    add("--plot", metavar="FILE", type=svg_path, help="draw the latencies into this SVG file")
    return parser


def _workloads() -> dict[str, str]:
    """Names and what they are."""
    known = {name: one.workload.sentence for name, one in CATALOGUE.items()}
    known |= {name: one.sentence for name, one in DRAWN.items()}
    return known | {name: one.sentence for name, one in TRACES.items()}


def _add_traffic(group: Any) -> None:
    add = group.add_argument
    add("--workload", choices=list(_workloads()), default="bimodal", help="default: bimodal")
    add("--trace", metavar="FILE", type=Path, help=f"to be replayed by --workload {' or '.join(TRACES)}")
    add(
        "--load",
        metavar="SHARE",
        type=above(0, 10),
        default=0.85,
        help="of the fleet's capacity; default 0.85",
    )
    add("--duration", metavar="S", type=above(0, 86400), default=60.0, help="of the arrivals; default 60")
    add("--seed", metavar="N", type=int, default=1, help="the same seed is the same run; default 1")
    add(
        "--cv",
        metavar="X",
        type=above(0, 20),
        default=1.0,
        help="variation of the gaps between requests: 1 is Poisson, more comes in bursts; default 1",
    )
    add(
        "--profile",
        metavar="T:X,T:X",
        type=rate_profile,
        default=STEADY,
        help="the rate times X at T seconds, in straight lines: 0:1,10:1,15:10 grows tenfold within 5 s",
    )
    add(
        "--bursts",
        metavar="X:S:EVERY",
        type=bursts,
        help="bursts with X times the rate between them, S seconds long, one every so many seconds, both on "
        "average: 5:4:20; the load stays the same",
    )
    add(
        "--estimates",
        choices=["exact", "noisy", "none"],
        default="noisy",
        help="the proxy's estimate of each request's work; default noisy",
    )
    add(
        "--sigma",
        metavar="X",
        type=above(0, 5),
        default=1.0,
        help="how noisy: the estimate is times a lognormal number of this sigma; default 1",
    )

    add(
        "--deadline",
        metavar="S[:SHARE]",
        type=deadlines,
        help="clients wait so long: seconds, or 2.5x for times what a request takes alone at mean speed; "
        "8:0.3 is 8 s for three in ten",
    )
    add(
        "--first-token",
        metavar="S",
        type=above(0, 3600),
        help="the fleet's objective for first tokens, slo.first_token_s of its policy",
    )
    add(
        "--hide-deadlines",
        action="store_true",
        help="the proxies know neither deadlines nor the objective; what was in time is counted all the same",
    )


def _add_fleet(group: Any) -> None:
    add = group.add_argument
    add(
        "--proxies",
        metavar="N",
        type=count(64),
        default=1,
        help="each on its own, requests at random; default 1",
    )
    add(
        "--fleet",
        metavar="FILE",
        type=Path,
        help="replicas of a fleet file's first fleet: weights are their speeds, max_concurrency their slots",
    )
    add(
        "--speeds",
        metavar="S,S",
        type=replica_speeds,
        help="replicas of these speeds; 1x6,2x6,4x4 is the default fleet",
    )
    add(
        "--connect",
        metavar="S",
        type=above(0, 60),
        default=0.0,
        help="what opening a connection to a replica takes where none is idle; default 0",
    )
    add("--slots", metavar="N", type=count(4096), default=4, help="of each replica of --speeds; default 4")
    add("--batch", metavar="N", type=count(100_000), help="LLM servers: most sequences at once; default 64")
    add(
        "--kv-tokens",
        metavar="N",
        type=count(1_000_000_000),
        help="LLM servers: tokens that KV memory has room for; default 427000",
    )
    add("--hide-weights", action="store_true", help="the proxies do not know the weights")
    add(
        "--hide-slots",
        action="store_true",
        help="the proxies do not know how many requests a replica processes at once",
    )
    add(
        "--queue",
        choices=["replica", "proxy"],
        help="where requests wait for a slot: queue.at; default replica, or as the fleet file says",
    )
    add(
        "--limit",
        metavar="N",
        type=count(1_000_000),
        help="max_concurrency of every replica, of servers that batch too; more wait in the proxy, "
        "unless --queue says otherwise",
    )
    add(
        "--policy",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="any field of the fleet's policy, for example queue.size=7; may be repeated",
    )
    add("--serves", choices=get_args(Serves), help="what the policy says of the servers; default auto")
    add("--slow-start", metavar="S", type=above(-1, 3600), help="the policy's slow_start_s; default 30")


def _add_faults(group: Any) -> None:
    add = group.add_argument
    common: dict[str, Any] = {"action": "append", "default": []}
    add("--steady", action="store_true", help="nothing")
    add("--slow", metavar="REPLICA:FROM-TO:X", help="times X in its speed: r16:20-40:0.33", **common)
    add("--crash", metavar="REPLICA:FROM-TO", help="it is gone, with what it works on", **common)
    add("--fail", metavar="REPLICA:FROM-TO", help="it answers with an error within 1 ms", **common)
    add("--cold", metavar="REPLICA:UNTIL", help="it loads its model until then", **common)
    add(
        "--join",
        metavar="REPLICA:AT",
        help="it starts then; before that, the table does not have it",
        **common,
    )
    add(
        "--warm-up",
        metavar="[REPLICA:]N:X",
        help="beside the others: its first N answers after a start at X of its speed, r2:3:0.05; "
        "without a name: of every replica",
        **common,
    )
