"""Each field of an exchange has one writer: the module that the table in state.py names."""

import ast
import re
from pathlib import Path

from routing.proxy.exchange import state
from routing.proxy.exchange.state import ExchangeState

PROXY = Path(state.__file__).parent.parent
ROOT = "ExchangeState"
MAKER = "exchange"
"""The module of the one constructor, which may give any field its first value."""


def owners() -> dict[str, str]:
    """Field → the module that writes it, by the table in state.py."""
    assert state.__doc__ is not None
    rows = state.__doc__.partition("writer                 fields\n")[2].split("\n=")[0].splitlines()[1:]
    found: dict[str, str] = {}
    writer = ""
    for row in rows:
        writer = row[:22].strip() or writer
        for field in re.findall(r"\w+", row[22:].partition(":")[0]):
            assert field not in found, f"{field} is in the table twice"
            found[field] = writer
    return found


def exchange_classes(trees: dict[Path, ast.Module]) -> set[str]:
    """Names of the classes that have an exchange's fields."""
    found, before = {ROOT}, 0
    while len(found) != before:
        before = len(found)
        for tree in trees.values():
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef) and found & {ast.unparse(base) for base in node.bases}:
                    found.add(node.name)
    return found


def writes(tree: ast.AST, fields: set[str], exchanges: set[str], is_self_exchange: bool = False) -> set[str]:
    """Fields of an exchange that are assigned, changed in place or deleted here, but in constructors."""
    found: set[str] = set()
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            found |= writes(node, fields, exchanges, node.name in exchanges)
            continue
        if isinstance(node, ast.FunctionDef) and node.name == "__init__" and is_self_exchange:
            continue
        if (
            isinstance(node, ast.Attribute)
            and not isinstance(node.ctx, ast.Load)
            and node.attr in fields
            and (ast.unparse(node.value) != "self" or is_self_exchange)
        ):
            found.add(node.attr)
        found |= writes(node, fields, exchanges, is_self_exchange)
    return found


def test_the_table_names_every_field_and_no_other() -> None:
    assert set(owners()) == set(ExchangeState.__slots__)


def test_each_field_is_written_by_its_owner_alone() -> None:
    trees = {path: ast.parse(path.read_text("utf-8")) for path in sorted(PROXY.rglob("*.py"))}
    exchanges, owner = exchange_classes(trees), owners()
    found = {path.stem: writes(tree, set(owner), exchanges) for path, tree in trees.items()}
    strange = {
        f"{field}: written in {module}, owned by {owner[field]}"
        for module, fields in found.items()
        for field in fields
        if owner[field] != module
    }
    assert not strange
    idle = {
        f"{field}: {module} does not write it"
        for field, module in owner.items()
        if module != MAKER and field not in found[module]
    }
    assert not idle


def test_a_second_writer_is_found() -> None:
    text = """
class Thief:
    def __init__(self, exchange):
        self.pool = self._exchange = exchange

    def take(self):
        self._exchange.attempt = None
        exchange = self._exchange
        exchange.upstream, exchange.work = None, 1.0
        exchange.tried += (1,)
        del exchange.key
        return exchange.pool

class Own(ExchangeState):
    def __init__(self):
        self.streaming_response = None

    def clear(self):
        self.waiting = None
"""
    tree = ast.parse(text)
    classes = exchange_classes({Path(): tree})
    assert classes == {ROOT, "Own"}
    found = writes(tree, set(ExchangeState.__slots__), classes)
    assert found == {"attempt", "upstream", "work", "tried", "key", "waiting"}
