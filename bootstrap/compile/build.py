"""Compiles modules by mypyc: run by the Python of the environment that has it, in the project's folder.

    python bootstrap/compile/build.py PYTHON WORK GROUP MODULE …

PYTHON is that of ``.venv``, whose packages' types are read. The extensions are below WORK, in ``lib``. Exit
status: 0, or other than that after what mypyc or the C compiler said.
"""

import sys
from pathlib import Path

from mypyc.build import mypycify
from setuptools import Distribution
from setuptools.command.build_ext import build_ext

CONFIG = """[mypy]
python_executable = {python}
cache_dir = {work}/types
ignore_missing_imports = True
"""


def main(python: str, work: Path, group: str, modules: list[str]) -> None:
    config = work / "mypy.ini"
    config.write_text(CONFIG.format(python=python, work=work))
    paths = [module.replace(".", "/") + ".py" for module in modules]
    extensions = mypycify(
        ["--config-file", str(config), *paths],
        group_name=group,
        target_dir=str(work / "c"),
        opt_level="2",
        debug_level="0",
    )
    build = build_ext(Distribution({"name": group, "ext_modules": extensions}))
    build.build_lib, build.build_temp = str(work / "lib"), str(work / "o")
    build.ensure_finalized()
    build.run()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4:])
