"""Restart events: which programs died and were restarted, read from the supervisor's log."""

import re
from pathlib import Path

EXITED = re.compile(r" exited: (\S+) \((.+?); not expected\)")
GAVE_UP = re.compile(r" gave up: (\S+) ")


class RestartEvents:
    """Reads what was added to the log since the last call; follows its rotation."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self.offset = 0

    def skip_to_end(self) -> None:
        """Skip what earlier runs have logged."""
        self.offset = self.log.stat().st_size if self.log.exists() else 0

    def read(self) -> list[str]:
        try:
            if self.log.stat().st_size < self.offset:
                self.offset = 0
            with self.log.open("rb") as log:
                log.seek(self.offset)
                gained = log.read()
        except OSError:
            return []
        whole = gained[: gained.rfind(b"\n") + 1]
        self.offset += len(whole)
        return [news for line in whole.decode(errors="replace").splitlines() if (news := in_words(line))]


def in_words(line: str) -> str | None:
    if found := EXITED.search(line):
        return f"{found[1]} ended ({found[2]}) and is restarted; see logs/{found[1]}.log"
    if found := GAVE_UP.search(line):
        return f"{found[1]} keeps ending and is not restarted any more; see logs/{found[1]}.log"
    return None
