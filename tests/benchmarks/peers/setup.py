"""What every proxy of the comparison is told: where its replicas are, and where it is to listen."""

import sys
from dataclasses import dataclass
from pathlib import Path

MODEL = "m"
PATH = "/v1/chat/completions"


@dataclass(frozen=True)
class Setup:
    """One proxy's folder, port and replicas. All on 127.0.0.1."""

    folder: Path
    """Its own, empty."""
    port: int
    spare_port: int
    """For a second listener, where there must be one."""
    replicas: list[int]
    tools: Path
    """``bin`` of the environment that holds what pip brings."""
    key: str
    """A client key, which ours asks for."""
    weights: tuple[int, ...] = ()
    """Of the replicas, for those that can be told; none: all alike."""
    slots: int | None = None
    """Requests that a replica works on at once, for those that can keep the others; ``None``: not limited."""

    @property
    def urls(self) -> list[str]:
        return [f"http://127.0.0.1:{port}" for port in self.replicas]

    def write(self, name: str, text: str) -> str:
        path = self.folder / name
        path.write_text(text)
        return str(path)


def our_python() -> str:
    return sys.executable
