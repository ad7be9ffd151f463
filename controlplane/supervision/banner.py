"""Banner: what ``up`` prints when everything is up: addresses, login, a first command."""

from pathlib import Path

from controlplane.supervision.options import UpOptions
from controlplane.supervision.preparation import Administrator


def banner(options: UpOptions, data: Path, administrator: Administrator, seconds: float) -> str:
    """Plain lines, so that each can be pasted."""
    return "\n".join(
        [
            "",
            f"Switchyard is up after {seconds:.1f} s. Ctrl-C stops it.",
            "",
            f"  dashboard   {options.dashboard_url}",
            f"  login       {login(administrator)}",
            f"  proxy       {options.proxy_url}",
            f"  data, logs  {data}",
            "",
            *(["This asks a model:"] if options.examples else ["This lists the models (none yet):"]),
            "",
            first_curl(options),
            "",
        ]
    )


def login(administrator: Administrator) -> str:
    if administrator.password is None:
        return f"{administrator.name}   forgot the password: make password"
    return f"{administrator.name}   one-time password: {administrator.password}"


def first_curl(options: UpOptions) -> str:
    if not options.examples:
        return f"curl -s {options.proxy_url}/v1/models"
    body = '{"model": "tiny-llm", "max_tokens": 24, "messages": [{"role": "user", "content": "Hello"}]}'
    url = f"{options.proxy_url}/v1/chat/completions"
    return f"curl -s {url} -H 'Content-Type: application/json' -d '{body}'"
