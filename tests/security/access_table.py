"""The table of docs/security.md, from the access matrix.

``python -m tests.security.access_table docs/security.md`` writes it there; without a file it is printed.
"""

import sys
from pathlib import Path

from tests.security.access_matrix import API, PAGES, WEBSOCKETS, Methods, Role

BEGIN, END = "<!-- access: made by tests.security.access_table -->\n", "<!-- end of access -->\n"
COLUMNS = {
    Role.NOBODY: "everybody",
    Role.READ: "`read`",
    Role.OPERATE: "`operate` also",
    Role.ADMINISTER: "`administer` also",
}


def table() -> str:
    lines = [f"| address | {' | '.join(COLUMNS.values())} |", "| --- " * (len(COLUMNS) + 1) + "|"]
    lines += [row(shown(route), methods) for route, methods in API.items()]
    lines += [row(shown(route), methods) for route, methods in PAGES.items()]
    lines += [row(f"/{shown(route)}", {"WebSocket": need}) for route, need in WEBSOCKETS.items()]
    return "\n".join(lines) + "\n"


def row(address: str, methods: Methods) -> str:
    return f"| `{address}` | {' | '.join(cell(methods, role) for role in COLUMNS)} |"


def cell(methods: Methods, role: Role) -> str:
    """Asterisk: it needs the role for all fleets. Dagger: a token that is limited to a role will not do."""
    found = [(method, need) for method, need in methods.items() if need.role == role]
    return ", ".join(method + "*" * need.all_fleets + "†" * need.whole_token for method, need in found)


def shown(route: str) -> str:
    """``<str:fleet>`` as ``{fleet}``."""
    for kind in ("str", "int", "path"):
        route = route.replace(f"<{kind}:", "{")
    return route.replace(">", "}")


def put_into(page: Path) -> None:
    before, _, rest = page.read_text("utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    page.write_text(f"{before}{BEGIN}{table()}{END}{after}", "utf-8")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        put_into(Path(sys.argv[1]))
    else:
        print(table(), end="")
