"""Packages that bring strategies, as an installer leaves them in a folder of ``sys.path``."""

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

EXAMPLE = Path(__file__).parents[1] / "examples" / "strategy"


def install(folder: Path, package: str, entries: Mapping[str, str], modules: Mapping[str, str]) -> None:
    """``entries``: strategy → ``module:Class``; ``modules``: name → text."""
    metadata = folder / f"{package.replace('-', '_')}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines = [f"{name} = {where}" for name, where in entries.items()]
    (metadata / "entry_points.txt").write_text("\n".join(["[switchyard.strategies]", *lines, ""]))
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)


def install_example(folder: Path) -> None:
    """The example as its own ``pyproject.toml`` says."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text("utf-8"))
    names: Iterable[str] = project["tool"]["setuptools"]["py-modules"]
    install(
        folder,
        project["project"]["name"],
        project["project"]["entry-points"]["switchyard.strategies"],
        {name: (EXAMPLE / f"{name}.py").read_text("utf-8") for name in names},
    )
