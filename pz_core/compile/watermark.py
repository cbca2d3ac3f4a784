"""``watermark()`` in SQL: which comparison cuts a dataset's read, its NULL guard, and the value put in at run time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from pz_core.compile.comparisons import Comparison, Finder, Findings, Place
from pz_core.compile.inferred import DatasetInfo, Inferred
from pz_core.compile.model import Incremental, WatermarkBound
from pz_core.compile.rendered import WatermarkCall, sentinel
from pz_core.compile.sqlparse import UNKNOWN_LOCATION, NotParsed, Tree, parse, same
from pz_core.compile.sqltokens import SqlTokens
from pz_core.errors import Problems, Where
from pz_core.values import CURSOR_TYPES, duckdb_type, is_type_word, quote_literal

__all__ = ["DatasetInfo", "Inferred", "infer", "literal", "substitute"]

_SHAPE = (
    "write a plain column of the dataset, one of > >= < <=, and an expression with one watermark() and no column, "
    "joined to the rest of WHERE or ON by AND"
)
_DUCKDB_TYPE = re.compile(r"[A-Za-z][A-Za-z0-9_ ]*(\(\s*\d+\s*(,\s*\d+\s*)?\))?( with time zone)?", re.IGNORECASE)
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
#: How much of an expression a message shows.
_EXCERPT = 120


def infer(
    sql: str, *, pipeline: str, where: Where, calls: Sequence[WatermarkCall], datasets: Mapping[str, DatasetInfo]
) -> Inferred:
    """Read the watermark comparisons of a pipeline's final SQL.

    Args:
        sql: with ephemeral pipelines inlined and sentinels in it.
        pipeline: its name, for messages.
        where: its place, for a fault that no call is to blame for.
        calls: the ``watermark()`` calls, those of inlined pipelines among them.
        datasets: what the pipeline reads with ``source()``, by ``connection.entity``.
    """
    if not calls:
        return Inferred(sql, {}, Problems())
    inference = _Inference(sql, pipeline, where, calls, datasets)
    try:
        return inference.run()
    except RecursionError:
        return inference.too_deep()


class _Inference:
    def __init__(
        self,
        sql: str,
        pipeline: str,
        where: Where,
        calls: Sequence[WatermarkCall],
        datasets: Mapping[str, DatasetInfo],
    ) -> None:
        self.sql = sql
        self.pipeline = pipeline
        self.where = where
        self.datasets = datasets
        self.problems = Problems()
        self.places: dict[str, Where] = {}
        self.sentinels: dict[str, str] = {}
        for call in calls:
            dataset = f"{call.connection}.{call.entity}"
            self.places.setdefault(dataset, call.where)
            self.sentinels[f"__pz_watermark__{call.connection}__{call.entity}__"] = dataset

    def too_deep(self) -> Inferred:
        """The one fault of a query that has more levels than can be walked."""
        self.problems = Problems()
        self._fault(next(iter(self.places)), "the SQL of a pipeline with watermark() is nested too deeply to be read")
        return Inferred(self.sql, {}, self.problems)

    def run(self) -> Inferred:
        try:
            trees = parse(self.sql)
        except NotParsed as error:
            self._fault(
                next(iter(self.places)),
                f"the SQL of a pipeline with watermark() must be one query that parses: {error}",
            )
            return Inferred(self.sql, {}, self.problems)
        tokens = SqlTokens(self.sql)
        finder = Finder(tokens, self.sentinels, {name: info.relation for name, info in self.datasets.items()})
        for tree in trees:
            finder.query(tree)
        found = finder.found
        for refusal in found.refusals:
            self._fault(refusal.dataset, refusal.reason, self._excerpt(tokens, refusal.location))
        self._leftovers(found)
        refused = {refusal.dataset for refusal in found.refusals}
        incrementals: dict[str, Incremental] = {}
        for dataset in self.places:
            mine = sorted((c for c in found.comparisons if c.dataset == dataset), key=lambda c: c.token)
            if dataset in refused or not mine:
                continue
            made = self._verdict(dataset, mine, found.places, tokens)
            if made is not None:
                incrementals[dataset] = made
        if self.problems.any:
            return Inferred(self.sql, {}, self.problems)
        guarded = _guarded(tokens, trees, found.comparisons)
        if guarded is None:
            self._fault(
                next(iter(self.places)),
                "the ends of a comparison with watermark() cannot be told from what stands beside it",
                hint="put the comparison in brackets of its own",
            )
            return Inferred(self.sql, {}, self.problems)
        return Inferred(guarded, incrementals, self.problems)

    def _fault(self, dataset: str, reason: str, excerpt: str = "", hint: str = _SHAPE) -> None:
        about = f" in '{excerpt}'" if excerpt else ""
        message = f"pipeline '{self.pipeline}': watermark() of {dataset}{about} cannot be used: {reason}"
        where = self.places.get(dataset, self.where)
        if not any(e.message == message and e.where == where for e in self.problems.errors):
            self.problems.error("PZ0224", message, where=where, hint=hint)

    def _excerpt(self, tokens: SqlTokens, location: int) -> str:
        number = tokens.at_byte(location)
        if number is None:
            return ""
        text = " ".join(tokens.text(*tokens.condition(number)).split())
        for plain, dataset in self.sentinels.items():
            connection, _, entity = dataset.partition(".")
            text = text.replace(quote_literal(plain), f"watermark('{connection}', '{entity}')")
        return text if len(text) <= _EXCERPT else text[: _EXCERPT - 1] + "…"

    def _leftovers(self, found: Findings) -> None:
        """A sentinel that the parser did not see as a value of its own, such as one inside a longer string."""
        for plain, dataset in self.sentinels.items():
            seen = sum(c.dataset == dataset for c in found.comparisons)
            seen += sum(r.dataset == dataset for r in found.refusals)
            if self.sql.count(plain) > seen:
                self._fault(dataset, "it stands inside a text")

    def _verdict(
        self, dataset: str, mine: list[Comparison], places: Iterable[Place], tokens: SqlTokens
    ) -> Incremental | None:
        """How a dataset is read, or its one fault, the first that applies."""
        info = self.datasets[dataset]
        where = self.places[dataset]
        error = self.problems.error
        about = f"pipeline '{self.pipeline}' reads {dataset}"
        if info.sync is not None and info.sync.mode != "incremental":
            error(
                "PZ0315",
                f"{about} from a watermark(), and its sync: says mode {info.sync.mode}, which has no ordered cursor",
                where=where,
                hint="remove the sync: block, or the watermark() from the SQL",
            )
            return None
        if info.sync is not None:
            error(
                "PZ0225",
                f"{about} incrementally by watermark() in SQL, and its sync: declares it incremental as well",
                where=where,
                hint="keep one of the two: a window can be written in the WHERE",
            )
            return None
        cursors = sorted({c.column.lower() for c in mine})
        if len(cursors) > 1:
            error(
                "PZ0231",
                f"{about} by more than one cursor: {', '.join(cursors)}",
                where=where,
                hint="compare watermark() with one and the same column",
            )
            return None
        if not self._same_everywhere(dataset, info, mine, places):
            return None
        cursor, word = mine[0].column, None
        if info.columns:
            declared = next((name for name in info.columns if name.lower() == cursors[0]), None)
            word = info.columns[declared] if declared is not None else None
            if declared is None or not _is_cursor_type(str(word)):
                fault = "its columns: leave that out" if declared is None else f"its columns: declare that as {word}"
                error(
                    "PZ0227",
                    f"{about} by the cursor {cursor}, and {fault}",
                    where=where,
                    hint=f"declare {cursor} under columns: of {dataset} as one of {', '.join(CURSOR_TYPES)}",
                )
                return None
            cursor = declared
        if not any(c.op.startswith(">") for c in mine):
            error(
                "PZ0351",
                f"{about} up to a ceiling on {cursor}, without a floor to go on from",
                where=where,
                hint=f"add a floor, such as {cursor} > {{{{ watermark('{info.connection}', '{info.entity}') }}}}",
            )
            return None
        bounds: dict[tuple[str, str], WatermarkBound] = {}
        for comparison in mine:
            bounds.setdefault(comparison.bound, WatermarkBound(comparison.op, _value_text(tokens, comparison)))
        return Incremental(cursor, word, None, tuple(bounds.values()))

    def _same_everywhere(
        self, dataset: str, info: DatasetInfo, mine: list[Comparison], places: Iterable[Place]
    ) -> bool:
        """Whether every place of a dataset has the same bounds: what one place drops, no other may want."""
        relation = info.relation.lower()
        wanted = {c.bound for c in mine}
        for place in places:
            if place.relation == relation and {c.bound for c in mine if c.place is place} != wanted:
                self._fault(
                    dataset,
                    "the dataset stands more than once in the pipeline, and not every place has the same bounds",
                    hint="give each place the same watermark() comparisons, or read it once and ref() that",
                )
                return False
        return True


def _is_cursor_type(word: str) -> bool:
    return word in CURSOR_TYPES or (word.startswith("decimal(") and is_type_word(word))


def _value_text(tokens: SqlTokens, comparison: Comparison) -> str:
    first, last = tokens.condition(comparison.token)
    if comparison.flipped:
        return tokens.text(first, comparison.token - 1)
    # Operators of two characters are two tokens.
    width = len(comparison.op)
    return tokens.text(comparison.token + width, last)


def _guarded(tokens: SqlTokens, trees: list[Tree], comparisons: list[Comparison]) -> str | None:
    """The text with its guards; ``None`` if they do not mean to the parser what they should."""
    if not comparisons:
        return tokens.sql
    expected = {id(c.node): _guard(c) for c in comparisons}
    for opening, closing in (("", ""), ("(", ")")):
        made = tokens.sql
        for comparison in sorted(comparisons, key=lambda c: c.token, reverse=True):
            first, last = tokens.condition(comparison.token)
            start, end = tokens.tokens[first].start, tokens.tokens[last].end
            value = _value_text(tokens, comparison)
            made = f"{made[:start]}({opening}{value}{closing} IS NULL OR {made[start:end]}){made[end:]}"
        try:
            if same(trees, parse(made), expected):
                return made
        except NotParsed:
            continue
    return None


def _guard(comparison: Comparison) -> Tree:
    """A comparison under its guard, as the parser should see it."""
    place = {"query_location": 0}
    test = {"class": "OPERATOR", "type": "OPERATOR_IS_NULL", "children": [comparison.value], **place}
    return {"class": "CONJUNCTION", "type": "CONJUNCTION_OR", "children": [test, comparison.node], **place}


def substitute(
    sql: str,
    values: Mapping[str, str | None],
    types: Mapping[str, str | None],
    *,
    full_refresh: bool = False,
) -> str:
    """Put stored watermarks in the place of sentinels.

    Args:
        sql: a guarded text, or a bound's expression.
        values: stored value of each dataset (``connection.entity``), ``None`` where nothing is stored.
        types: type of each cursor, a word of ``columns:`` or a DuckDB type, so that a NULL has one.
        full_refresh: make every guard true for all rows, whatever its expression falls back to.
    """
    datasets = sorted({*values, *types})
    if full_refresh and datasets:
        sql = _all_true(sql, datasets)
    for dataset in datasets:
        connection, _, entity = dataset.partition(".")
        value = None if full_refresh else values.get(dataset)
        sql = sql.replace(sentinel(connection, entity), literal(value, types.get(dataset)))
    return sql


def literal(value: str | None, type: str | None) -> str:
    """A watermark as SQL: typed, since an untyped NULL or text does not bind in every expression."""
    spelled = _type_name(type)
    if value is None:
        return f"CAST(NULL AS {spelled})" if spelled else "NULL"
    if (spelled is None or spelled.startswith("DECIMAL")) and _NUMBER.fullmatch(value):
        return f"({value})" if value.startswith("-") else value
    return f"CAST({quote_literal(value)} AS {spelled})" if spelled else quote_literal(value)


def _type_name(type: str | None) -> str | None:
    if type is None:
        return None
    if is_type_word(type):
        return duckdb_type(type)
    return type.upper() if _DUCKDB_TYPE.fullmatch(type) else None


def _all_true(sql: str, datasets: Iterable[str]) -> str:
    """Write ``TRUE OR`` into each guard."""
    plain = set()
    for dataset in datasets:
        connection, _, entity = dataset.partition(".")
        plain.add(f"__pz_watermark__{connection}__{entity}__")
    if not any(text in sql for text in plain):
        return sql
    try:
        trees = parse(sql)
    except NotParsed:
        return sql
    tokens = SqlTokens(sql)
    ends = sorted((end for tree in trees for end in _guard_ends(tree, plain, tokens)), reverse=True)
    for end in ends:
        sql = f"{sql[:end]} TRUE OR{sql[end:]}"
    return sql


def _guard_ends(tree: Tree, plain: set[str], tokens: SqlTokens) -> Iterable[int]:
    """Where the OR of each guard ends in the text."""
    todo: list[object] = [tree]
    while todo:
        at = todo.pop()
        if isinstance(at, list):
            todo.extend(at)
        elif isinstance(at, dict):
            todo.extend(at.values())
            if at.get("type") == "CONJUNCTION_OR" and _is_guard(at.get("children", []), plain):
                number = tokens.at_byte(at.get("query_location", UNKNOWN_LOCATION))
                if number is not None:
                    yield tokens.tokens[number].end


def _is_guard(children: list[Tree], plain: set[str]) -> bool:
    if len(children) != 2 or children[0].get("type") != "OPERATOR_IS_NULL" or children[1].get("class") != "COMPARISON":
        return False
    return all(any(text in str(child) for text in plain) for child in children)
