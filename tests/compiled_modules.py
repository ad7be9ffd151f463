"""Plugin: the tests of this run use the compiled modules. ``python -m pytest -p tests.compiled_modules …``

For tests with real sockets only: a test's own class cannot derive from a compiled one nor stand in its place,
and constants of compiled modules cannot be set.
"""

from routing import compiled

assert compiled.use(), "nothing is compiled of these sources: python3 bootstrap/run.py compile"
