"""Setting docs: the description of each setting, declared where it is read, printed as ``docs/settings.md``.

A reader of :mod:`controlplane.config.environment` declares its setting when ``settings.py`` calls it, so that
every setting that is read is on the page, and no other.
``manage.py settings_page`` prints the page.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import NamedTuple


class SettingDoc(NamedTuple):
    meaning: str
    """What it does, one or two sentences of Markdown."""
    example: str
    """A value that is accepted."""
    default: str = ""
    """The default in words, if the value itself would not explain it; empty: the value."""


class DocumentedSetting(NamedTuple):
    name: str
    form: str
    """Format of the values, Markdown."""
    default: str
    meaning: str
    example: str


DECLARED: dict[str, DocumentedSetting] = {}
"""By name, in the order in which the settings are read."""


def misspelt(names: Iterable[str]) -> dict[str, str]:
    """Misspelt settings among these variables → the name that was probably meant."""
    unknown = {name for name in names if name.startswith("SWITCHYARD_") and name not in DECLARED}
    nearest = {name: get_close_matches(name, DECLARED, n=1, cutoff=0.85) for name in sorted(unknown)}
    return {name: found[0] for name, found in nearest.items() if found}


def declare(name: str, form: str, default: str, about: SettingDoc) -> None:
    shown = about.default or (f"`{default}`" if default else "none")
    DECLARED[name] = DocumentedSetting(name, form, shown, about.meaning, about.example)


HEAD = """# Settings

<!-- Printed by `manage.py settings_page` from the code; a test holds this file to it. -->

Switchyard is configured by environment variables, and all of them are optional. A wrong value stops the start
with one sentence that names the variable; `manage.py check` warns about a misspelt name. All processes of one
installation need the same values, except where a row says otherwise. The proxy has flags of its own. It reads
`SWITCHYARD_LOG_FORMAT`, `SWITCHYARD_DATA_DIR` and the three that say where replicas may be: see [the
proxy](proxy.md#flags).

Behind a reverse proxy set three together: `SWITCHYARD_TRUSTED_PROXIES`, `SWITCHYARD_TLS` and
`SWITCHYARD_ALLOWED_HOSTS` ([how](production.md#tls)).

| name | values | default | meaning | example |
| --- | --- | --- | --- | --- |
"""


def page() -> str:
    """The whole of ``docs/settings.md``."""
    rows = [
        f"| `{each.name}` | {each.form} | {each.default} | {each.meaning} | `{each.example}` |"
        for each in DECLARED.values()
    ]
    return HEAD + "\n".join(rows) + "\n"
