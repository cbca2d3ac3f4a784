"""Finds the comparisons of a cursor with a watermark in DuckDB's tree, and says why any other use is none.

A comparison may cut what is read only where every row that it drops would be dropped by the query as well: the path
down to it is all AND, from WHERE, from the ON of an inner join, or from the ON of an outer join for the side that is
filled with NULLs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct, field

from pz_core.compile.deterministic import DETERMINISTIC
from pz_core.compile.sqlparse import UNKNOWN_LOCATION, Tree, shape
from pz_core.compile.sqltokens import SqlTokens

_OPERATORS = {
    "COMPARE_GREATERTHAN": ">",
    "COMPARE_GREATERTHANOREQUALTO": ">=",
    "COMPARE_LESSTHAN": "<",
    "COMPARE_LESSTHANOREQUALTO": "<=",
}
_FLIPPED = {">": "<", ">=": "<=", "<": ">", "<=": ">="}
_QUERIES = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
#: Kinds of expression that a value may be made of, beside functions of the allow-list.
_VALUE_CLASSES = frozenset({"CONSTANT", "CAST", "OPERATOR", "CASE", "CONJUNCTION", "COMPARISON", "BETWEEN"})
_WHY_NOT = {
    "CONJUNCTION": "it stands under OR",
    "OPERATOR": "it stands under an operator such as NOT or IN, not in a comparison of its own",
    "CASE": "it stands under CASE",
    "BETWEEN": "BETWEEN is not one of the comparisons",
    "FUNCTION": "it stands inside a function call",
}


class Place(Struct, eq=False):
    """A table in a FROM.

    Args:
        relation: name in the schema ``staging``, folded to lower case; ``None`` for any other table.
        base: whether it is a table, and neither a subquery nor a CTE of this query.
        shaky: why rows may not be dropped before the query sees them, if they may not.
    """

    alias: str
    relation: str | None
    base: bool
    renamed: bool = False
    shaky: str | None = None


class Comparison(Struct, frozen=True):
    """A recognised comparison.

    Args:
        column: the cursor as written, without its qualifier.
        op: with the cursor on the left.
        node: the comparison in the tree.
        value: its value side in the tree.
        flipped: whether the value stands on the left in the text.
        token: number of its operator's token.
        bound: operator and value, to be compared with another's.
    """

    dataset: str
    place: Place
    column: str
    op: str
    node: Tree
    value: Tree
    flipped: bool
    token: int
    bound: tuple[str, str]


class Refusal(Struct, frozen=True):
    """A watermark outside any recognised comparison."""

    dataset: str
    reason: str
    location: int


class Findings(Struct):
    """What a walk over a query found."""

    comparisons: list[Comparison] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)


class _No(Exception):
    """Why a comparison is none that counts."""


class _Join(Struct, frozen=True):
    condition: Tree
    kind: str
    left: tuple[Place, ...]
    right: tuple[Place, ...]


class Finder:
    """Walks over a query.

    Args:
        tokens: the text that the tree was made of.
        sentinels: text of each sentinel -> dataset.
        relations: dataset -> its relation in ``staging``; only datasets that the pipeline reads.
    """

    def __init__(self, tokens: SqlTokens, sentinels: Mapping[str, str], relations: Mapping[str, str]) -> None:
        self._tokens = tokens
        self._sentinels = sentinels
        self._relations = {dataset: relation.lower() for dataset, relation in relations.items()}
        self.found = Findings()

    def query(self, node: Tree, ctes: frozenset[str] = frozenset()) -> None:
        """Walk over a query node and all that is nested in it."""
        ctes = ctes | {entry["key"].lower() for entry in node.get("cte_map", {}).get("map", ())}
        if node.get("type") in ("RECURSIVE_CTE_NODE", "CTE_NODE"):
            ctes = ctes | {str(node.get("cte_name", "")).lower()}
        handled: set[int] = set()
        if node.get("type") == "SELECT_NODE":
            handled = self._select(node, ctes)
        for item in _direct(node):
            if _is_query(item):
                self.query(item, ctes)
            elif (dataset := self._dataset(item)) is not None and id(item) not in handled:
                self._refuse(dataset, self._position(node, item), item)

    def _dataset(self, item: Tree) -> str | None:
        if item.get("class") != "CONSTANT":
            return None
        value = item.get("value")
        text = value.get("value") if isinstance(value, dict) else None
        return self._sentinels.get(text) if isinstance(text, str) else None

    def _inside(self, item: Any) -> list[tuple[str, Tree]]:
        """Sentinels below an expression, those of nested queries left out."""
        return [(d, node) for node in _direct(item, include=True) if (d := self._dataset(node)) is not None]

    def _position(self, query: Tree, item: Tree) -> str:
        for key, words in (("select_list", "the select list"), ("group_expressions", "GROUP BY"), ("having", "HAVING")):
            if any(item is found for found in _direct(query.get(key))):
                return f"it stands in {words}"
        return "it does not stand in WHERE or ON"

    def _refuse(self, dataset: str, reason: str, item: Tree, condition: Tree | None = None) -> None:
        places = [int(node.get("query_location", UNKNOWN_LOCATION)) for node in (condition, item) if node is not None]
        known = next((place for place in places if place != UNKNOWN_LOCATION), UNKNOWN_LOCATION)
        self.found.refusals.append(Refusal(dataset, reason, known))

    def _select(self, node: Tree, ctes: frozenset[str]) -> set[int]:
        """Look through WHERE and every ON; returns the sentinels that were judged."""
        joins: list[_Join] = []
        places = self._from(node.get("from_table"), joins, ctes)
        self.found.places.extend(places)
        handled: set[int] = set()
        conditions: list[tuple[Tree | None, _Join | None]] = [(node.get("where_clause"), None)]
        conditions.extend((join.condition, join) for join in joins)
        for condition, join in conditions:
            for part in _conjuncts(condition):
                inside = self._inside(part)
                if not inside:
                    continue
                handled.update(id(item) for _, item in inside)
                try:
                    self.found.comparisons.append(self._comparison(part, inside, places, join))
                except _No as reason:
                    for dataset, item in inside:
                        self._refuse(dataset, str(reason), item, part)
        return handled

    def _from(self, node: Tree | None, joins: list[_Join], ctes: frozenset[str]) -> tuple[Place, ...]:
        if not node:
            return ()
        kind = node.get("type")
        if kind == "BASE_TABLE":
            schema, table = node.get("schema_name", "").lower(), node["table_name"].lower()
            base = bool(schema) or table not in ctes
            made = Place(
                (node.get("alias") or node["table_name"]).lower(),
                table if schema == "staging" else None,
                base,
                renamed=bool(node.get("column_name_alias")),
                shaky="it is sampled before the comparison is made" if node.get("sample") else None,
            )
            return (made,)
        if kind == "JOIN":
            left = self._from(node.get("left"), joins, ctes)
            right = self._from(node.get("right"), joins, ctes)
            how = node.get("ref_type")
            if how in ("POSITIONAL", "ASOF"):
                for place in (*left, *right) if how == "POSITIONAL" else right:
                    place.shaky = f"{how} JOIN chooses its pairs among all rows of that table"
            if node.get("condition"):
                joins.append(
                    _Join(node["condition"], "ASOF" if how == "ASOF" else node.get("join_type", "INNER"), left, right)
                )
            return (*left, *right)
        return (Place(str(node.get("alias", "")).lower(), None, False),)

    def _comparison(
        self, node: Tree, inside: list[tuple[str, Tree]], places: tuple[Place, ...], join: _Join | None
    ) -> Comparison:
        """Judge one conjunct.

        Raises:
            _No: with the reason why it does not count.
        """
        if node.get("class") != "COMPARISON":
            raise _No(_WHY_NOT.get(str(node.get("class")), "it does not stand in a comparison"))
        if node["type"] not in _OPERATORS:
            raise _No("only >, >=, < and <= give the cursor an order to resume from")
        on_left, on_right = self._inside(node["left"]), self._inside(node["right"])
        if on_left and on_right:
            raise _No("it stands on both sides of the comparison")
        cursor, value = (node["right"], node["left"]) if on_left else (node["left"], node["right"])
        op = _OPERATORS[node["type"]]
        token = self._operator(node, op)
        if token is None:
            raise _No("the comparison is negated")
        if cursor.get("class") != "COLUMN_REF":
            raise _No("the other side must be a plain column, without a function, a cast or a calculation")
        self._check_value(value)
        if len(inside) != 1:
            raise _No("the value holds more than one watermark()")
        dataset = inside[0][0]
        names: list[str] = cursor["column_names"]
        place = self._resolve(names, places, dataset)
        if join is not None:
            _check_side(place, join)
        if place.shaky:
            raise _No(place.shaky)
        op = _FLIPPED[op] if on_left else op
        bound = (op, shape(value))
        return Comparison(dataset, place, names[-1], op, node, value, bool(on_left), token, bound)

    def _operator(self, node: Tree, op: str) -> int | None:
        """Number of the comparison's operator token; ``None`` if DuckDB made it out of something else."""
        number = self._tokens.at_byte(node.get("query_location", UNKNOWN_LOCATION))
        tokens = self._tokens.tokens
        if number is None:
            return None
        marks = ""
        at = number
        while at < len(tokens) and tokens[at].text in "<>=!" and tokens[at].start == tokens[number].start + len(marks):
            marks += tokens[at].text
            at += 1
        return number if marks == op else None

    def _check_value(self, value: Tree) -> None:
        for node in _direct(value, include=True):
            if _is_query(node) or node.get("class") == "SUBQUERY":
                raise _No("the value holds a subquery")
            kind = node.get("class")
            if kind is None:
                continue
            if kind == "COLUMN_REF":
                raise _No(f"the value holds the column or changing value '{'.'.join(node['column_names'])}'")
            if kind == "FUNCTION":
                name = str(node["function_name"]).lower()
                if name not in DETERMINISTIC or node.get("schema", "") not in ("", "main", "pg_catalog"):
                    raise _No(f"the function {name}() is not known to give the same answer every time")
            elif kind not in _VALUE_CLASSES:
                raise _No("the value holds more than constants, casts, operators and functions")

    def _resolve(self, names: list[str], places: tuple[Place, ...], dataset: str) -> Place:
        wanted = self._relations.get(dataset)
        if wanted is None:
            raise _No("the pipeline does not read that dataset with source()")
        tables = [place for place in places if place.base]
        if len(names) == 1:
            if len(tables) != 1:
                raise _No(f"the column '{names[0]}' is not qualified and the FROM holds {len(tables)} tables")
            found = tables
        elif len(names) == 2:
            found = [place for place in places if place.alias == names[0].lower()]
        elif len(names) == 3 and names[0].lower() == "staging":
            found = [place for place in tables if place.relation == place.alias == names[1].lower()]
        else:
            found = []
        if len(found) != 1:
            raise _No(f"'{'.'.join(names[:-1])}' does not name one table of the FROM beside it")
        place = found[0]
        if place.relation != wanted:
            other = f"staging.{place.relation}" if place.relation else f"'{place.alias}'"
            raise _No(f"'{'.'.join(names)}' is a column of {other}, not of staging.{wanted}")
        if place.renamed:
            raise _No("the FROM renames the columns of that table")
        return place


def _check_side(place: Place, join: _Join) -> None:
    """Whether a comparison in ON drops the rows of a table.

    Raises:
        _No: if the join keeps them.
    """
    on_left = any(place is other for other in join.left)
    counts = {
        "INNER": True,
        "LEFT": not on_left,
        "RIGHT": on_left,
        "SEMI": True,
        "ANTI": not on_left,
    }
    if join.kind == "OUTER" or join.kind == "FULL":
        raise _No("a FULL JOIN keeps the rows that its ON refuses")
    if not counts.get(join.kind, False):
        raise _No(f"this side of the {join.kind} JOIN keeps the rows that its ON refuses; compare in WHERE")


def _is_query(node: Tree) -> bool:
    kind = node.get("type")
    return isinstance(kind, str) and kind in _QUERIES


def _conjuncts(condition: Tree | None) -> Iterator[Tree]:
    if not condition:
        return
    todo = [condition]
    while todo:
        node = todo.pop(0)
        if node.get("class") == "CONJUNCTION" and node.get("type") == "CONJUNCTION_AND":
            todo[:0] = node["children"]
        else:
            yield node


def _direct(item: Any, *, include: bool = False) -> Iterator[Tree]:
    """Nodes below an item; a nested query is given, but not entered."""
    todo: list[Any] = [item] if include or not isinstance(item, dict) else list(item.values())
    while todo:
        at = todo.pop()
        if isinstance(at, dict):
            yield at
            if not _is_query(at):
                todo.extend(value for value in at.values() if isinstance(value, (dict, list)))
        elif isinstance(at, list):
            todo.extend(at)
