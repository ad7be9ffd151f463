"""ORCA load report in the response header ``endpoint-load-metrics``.

Open Request Cost Aggregation (ORCA, cncf/xds ``OrcaLoadReport``), in its two readable forms; Triton and vLLM
send them if the request has ``endpoint-load-metrics-format``::

    TEXT cpu_utilization=0.3, mem_utilization=0.8, rps_fractional=10, named_metrics.num_requests_waiting=2
    JSON {"cpu_utilization": 0.3, "named_metrics": {"kv_cache_utilization": 0.4}}

The prefix may be missing, as in newer vLLM versions. The binary form is not read. A header that is not
entirely valid is refused; unknown names are ignored.
"""

from math import isnan, nan

import msgspec

from routing.contract.load_report import ReportedLoad, fraction, non_negative, parse_number, request_count

MAX_BYTES = 4096
MAX_FIGURES = 64

_KV = ("kv_cache_usage_perc", "kv_cache_utilization", "gpu_cache_usage_perc")
"""vLLM's name, Triton's, and that of older vLLMs."""

_Json = dict[str, float | dict[str, float]]


def parse(value: bytes) -> ReportedLoad | None:
    """The load in a header value; ``None``: it is invalid, or has no figure that is used here."""
    if len(value) > MAX_BYTES:
        return None
    word, _, rest = value.strip().partition(b" ")
    form = word.upper()
    if form in (b"TEXT", b"JSON"):
        value = rest
    else:
        form = b"JSON" if value.lstrip().startswith(b"{") else b"TEXT"
    figures = _of_json(value) if form == b"JSON" else _of_text(value)
    if figures is None or len(figures) > MAX_FIGURES:
        return None
    load = _load(figures)
    return None if load == ReportedLoad() else load


def _of_text(value: bytes) -> dict[str, float] | None:
    figures: dict[str, float] = {}
    for pair in value.split(b",", MAX_FIGURES):
        name, _, digits = pair.partition(b"=")
        key, figure = name.strip(b" \t").decode("latin-1"), parse_number(digits.strip(b" \t"))
        if not key or key in figures or isnan(figure):
            return None
        figures[key] = figure
    return figures


def _of_json(value: bytes) -> dict[str, float] | None:
    try:
        said = msgspec.json.decode(value, type=_Json)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    figures: dict[str, float] = {}
    for key, figure in said.items():
        if isinstance(figure, dict):
            figures |= {f"{key}.{name}": each for name, each in figure.items()}
        else:
            figures[key] = figure
    return figures


def _load(figures: dict[str, float]) -> ReportedLoad:
    def figure(*names: str) -> float:
        return next((figures[name] for name in names if name in figures), nan)

    def named(*names: str) -> float:
        return figure(*(f"{place}.{name}" for name in names for place in ("named_metrics", "utilization")))

    return ReportedLoad(
        running=request_count(named("num_requests_running")),
        waiting=request_count(named("num_requests_waiting")),
        kv_share=fraction(named(*_KV)),
        memory_share=fraction(figure("mem_utilization")),
        utilization=non_negative(figure("application_utilization", "cpu_utilization")),
        requests_per_s=non_negative(figure("rps_fractional")),
    )
