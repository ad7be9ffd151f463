"""``python -m routing.simulator``: compare strategies. ``--help`` lists the flags."""

import sys
from collections.abc import Callable

import msgspec

from routing.simulator import plot, text, token_results
from routing.simulator.options import BadSimulationOptions, SimulationOptions, nothing_arrived, parse
from routing.simulator.results import Result
from routing.simulator.simulation import simulate

WRONG_INPUT = 2
INTERRUPTED = 130


def main() -> int:
    """Run what the command line asks for; the exit status."""
    try:
        options = parse(sys.argv[1:])
        results = [_run(options, name) for name in options.strategies]
        if options.plot is not None:
            _draw(options, results)
    except (BadSimulationOptions, ValueError) as problem:
        print(problem, file=sys.stderr)
        return WRONG_INPUT
    except KeyboardInterrupt:
        return INTERRUPTED
    if options.json:
        print(msgspec.json.encode({"results": [_figures(options, result) for result in results]}).decode())
    else:
        parts = [options.title, text.table(results), _pace(results)]
        if options.shares:
            parts.insert(2, f"share of the requests\n\n{text.shares(results, options.replicas)}")
        print("\n\n".join(parts))
    return 0


def _figures(options: SimulationOptions, result: Result) -> dict[str, object]:
    """What is written in JSON of one strategy."""
    figures: dict[str, object] = {**token_results.figures(result)}
    return figures | {"shares": result.shares(options.replicas)} if options.shares else figures


def _run(options: SimulationOptions, strategy: str) -> Result:
    """One strategy, with a progress display."""
    watched = sys.stderr.isatty()
    parameters = options.parameters.get(strategy, {})
    try:
        result = simulate(options.setting, strategy, parameters, _progress(strategy) if watched else None)
    finally:
        if watched:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
    if not result.requests:
        raise BadSimulationOptions(nothing_arrived(options.setting))
    if options.from_s:
        result = result.since(options.from_s)
    if not result.requests:
        raise BadSimulationOptions(f"no request arrived from {options.from_s:g} s on: make --from less")
    return result


def _progress(strategy: str) -> Callable[[float], None]:
    def show(share: float) -> None:
        print(f"\r{strategy}: {share:4.0%}", end="", file=sys.stderr, flush=True)

    return show


def _draw(options: SimulationOptions, results: list[Result]) -> None:
    assert options.plot is not None
    try:
        options.plot.write_text(plot.svg(results, options.title), "utf-8")
    except OSError as error:
        raise BadSimulationOptions(f"--plot {options.plot}: {error.strerror}") from None


def _pace(results: list[Result]) -> str:
    events, wall_s = sum(result.events for result in results), sum(result.wall_s for result in results)
    return f"{events:,} events in {wall_s:.1f} s: {events / max(wall_s, 1e-9):,.0f} events/s"


if __name__ == "__main__":
    sys.exit(main())
