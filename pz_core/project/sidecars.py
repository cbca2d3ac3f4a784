"""``pipelines/configs/*.yml``: materialization, tags and checks of a pipeline."""

from __future__ import annotations

from pathlib import Path

from pz_core.contract.check import Check, CheckDefinition, CheckFault
from pz_core.errors import Problems, PzError, Where
from pz_core.plugins.registry import Registry
from pz_core.project.model import CheckEntry, Sidecar
from pz_core.project.shapes import did_you_mean, one_of, shown_node, switch
from pz_core.project.yaml import Block, Field, Items, Node, Text, read_yaml, to_value
from pz_core.values import Value, canonical_json

MATERIALIZATIONS = ("table", "view", "ephemeral")
_KEYS = ("pipeline", "materialization", "tags", "checks")


def load_sidecars(
    root: Path, files: tuple[str, ...], pipelines: frozenset[str], registry: Registry, problems: Problems
) -> dict[str, Sidecar]:
    """Read the sidecars, by the pipeline that each names; of two for one pipeline the later file counts.

    Args:
        root: the project's folder.
        files: sidecars, sorted.
        pipelines: names of the pipelines that are there.
        registry: gives the checks.
        problems: gets PZ0101, PZ0111, PZ0113 and PZ0134.
    """
    kinds = _Kinds(registry, problems)
    made: dict[str, Sidecar] = {}
    first: dict[str, str] = {}
    for file in files:
        block = read_yaml(root / file, file, problems)
        if block is None:
            continue
        name = _pipeline(block, file, pipelines, problems)
        _refuse_unknown(block, file, problems)
        sidecar = Sidecar(
            _materialization(block, name, file, problems),
            _tags(block, file, problems),
            _Checks(name, file, kinds, problems).read(block.fields.get("checks")),
            Where(file, 1),
        )
        if name not in pipelines:
            continue
        if name in made:
            problems.note(
                f"{file} replaces {first[name]} as the sidecar of pipeline '{name}'", hint="keep one of the two files"
            )
        first[name] = file
        made[name] = sidecar
    return made


def _refuse_unknown(block: Block, file: str, problems: Problems) -> None:
    """Refuse a misspelt key, which would drop checks without a word; warn of any other that pz does not know."""
    for key, entry in block.fields.items():
        if key in _KEYS:
            continue
        near = did_you_mean(key, _KEYS)
        report = problems.error if near else problems.warn
        report(
            "PZ0101",
            f"a sidecar has no key '{key}'" + ("" if near else "; it is ignored"),
            where=Where(file, entry.line),
            hint=f"{near}known keys: {one_of(_KEYS)}",
        )


def _pipeline(block: Block, file: str, pipelines: frozenset[str], problems: Problems) -> str:
    node = block.get("pipeline")
    name = node.text.strip() if isinstance(node, Text) and not node.blank else ""
    if name in pipelines:
        return name
    stem = file.rpartition("/")[2].rpartition(".")[0]
    if not name:
        problems.error(
            "PZ0111",
            f"{file} does not name its pipeline",
            where=Where(file, block.line_of("pipeline")),
            hint=f"add pipeline: {stem if stem in pipelines else '<name of a file under pipelines/>'}",
        )
        return stem
    problems.error(
        "PZ0111",
        f"{file} names pipeline '{name}', and there is no {name}.sql under pipelines/",
        where=Where(file, block.line_of("pipeline")),
        hint=f"{did_you_mean(name, pipelines)}correct the name, or delete the sidecar",
    )
    return name


def _materialization(block: Block, name: str, file: str, problems: Problems) -> str:
    node = block.get("materialization")
    if node is None or node.blank:
        return MATERIALIZATIONS[0]
    word = node.text if isinstance(node, Text) else ""
    if word in MATERIALIZATIONS:
        return word
    problems.error(
        "PZ0134",
        f"pipeline '{name}': materialization {shown_node(node)} is not known",
        where=Where(file, block.line_of("materialization")),
        hint=f"{did_you_mean(word, MATERIALIZATIONS)}write one of {one_of(MATERIALIZATIONS)}",
    )
    return MATERIALIZATIONS[0]


def _tags(block: Block, file: str, problems: Problems) -> tuple[str, ...]:
    node = block.get("tags")
    if node is None or node.blank:
        return ()
    items = node.items if isinstance(node, Items) else ()
    tags = [item.text for item in items if isinstance(item, Text) and item.text]
    if not isinstance(node, Items) or len(tags) < len(items):
        problems.warn(
            "PZ0101",
            f"tags must be a list of texts, got {shown_node(node)}; what is no text is ignored",
            where=Where(file, block.line_of("tags")),
            hint="write tags: [daily, crm]",
        )
    return tuple(dict.fromkeys(tags))


class _Kinds:
    """The checks that are installed, each loaded once; one that cannot be loaded is told once."""

    def __init__(self, registry: Registry, problems: Problems) -> None:
        self._registry = registry
        self._problems = problems
        self._loaded: dict[str, Check | None] = {}
        self._names: tuple[str, ...] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        if self._names is None:
            self._names = self._registry.names("check")
        return self._names

    def hint(self, kind: str) -> str:
        """What to do about a kind that cannot be used."""
        if self._registry.offer("check", kind) is not None:
            missing = self._registry.missing("check", kind).hint
            if missing:
                return missing
        return f"{did_you_mean(kind, self.names)}checks: {one_of(self.names)}"

    def get(self, kind: str, where: Where) -> Check | None:
        if kind not in self._loaded:
            self._loaded[kind] = self._load(kind, where)
        return self._loaded[kind]

    def _load(self, kind: str, where: Where) -> Check | None:
        try:
            made: Check = self._registry.load("check", kind)()
        except PzError as error:
            self._problems.add(error if error.where != Where() else error.at(where))
            return None
        except Exception as error:  # noqa: BLE001 - a plugin can raise anything; it is named
            self._problems.add(self.broken(kind, error, where))
            return None
        return made

    def broken(self, kind: str, error: Exception, where: Where) -> PzError:
        """The fault of a check plugin that raised what it must not raise."""
        offer = self._registry.offer("check", kind)
        whose = (
            f"plugin {offer.distribution} {offer.version} (entry point {offer.entry_point})" if offer else "its plugin"
        )
        return PzError(
            "PZ0701",
            f"check {kind} cannot be used: {whose} raised {type(error).__name__}",
            where=where,
            hint="upgrade the plugin, or report this to its authors",
            cause=error,
        )


class _Checks:
    """Reads the ``checks:`` of one sidecar; every PZ0113 names the pipeline."""

    def __init__(self, pipeline: str, file: str, kinds: _Kinds, problems: Problems) -> None:
        self._pipeline = pipeline
        self._file = file
        self._kinds = kinds
        self._problems = problems
        self._entries: dict[str, int] = {}
        self._names: dict[str, int] = {}

    def read(self, entry: Field | None) -> tuple[CheckEntry, ...]:
        if entry is None or entry.node.blank:
            return ()
        if not isinstance(entry.node, Items):
            self._error(
                f"checks must be a list, got {shown_node(entry.node)}",
                entry.line,
                "put a dash before each check: - not_null: [id]",
            )
            return ()
        made = [self._entry(node) for node in entry.node.items]
        return tuple(check for check in made if check is not None)

    def _error(self, what: str, line: int, hint: str) -> None:
        message = f"pipeline '{self._pipeline}': {what}"
        self._problems.error("PZ0113", message, where=Where(self._file, line), hint=hint)

    def _entry(self, node: Node) -> CheckEntry | None:
        hint = "write one check an entry: - not_null: [id]"
        if not isinstance(node, Block):
            got = "nothing" if node.blank else shown_node(node)
            self._error(f"a check must be a mapping of its kind to its options, got {got}", node.line, hint)
            return None
        if len(node.fields) != 1:
            kinds = " and ".join(node.fields)
            what = f"one entry holds several checks: {kinds}" if kinds else "a check is an empty mapping"
            self._error(what, node.line, hint)
            return None
        kind, entry = next(iter(node.fields.items()))
        if kind not in self._kinds.names:
            self._error(
                f"check '{kind}' is not known; known are {one_of(self._kinds.names)}",
                entry.line,
                self._kinds.hint(kind),
            )
            return None
        where = Where(self._file, entry.line)
        check = self._kinds.get(kind, where)
        if check is None:
            return None
        samples, body, fine = self._body(kind, entry)
        definition = self._define(check, kind, body, where)
        if definition is None or not fine:
            return None
        identity = self._identity(definition, entry.line)
        if identity is None or self._repeated(definition, identity, entry.line):
            return None
        return CheckEntry(definition, samples, where)

    def _body(self, kind: str, entry: Field) -> tuple[bool | None, Value, bool]:
        """``sample_values``, the body without it, and whether it was fine."""
        if entry.node.blank:
            return None, {}, True
        body = to_value(entry.node)
        if not isinstance(entry.node, Block) or not isinstance(body, dict) or "sample_values" not in body:
            return None, body, True
        del body["sample_values"]
        node = entry.node.fields["sample_values"].node
        samples = switch(node)
        if samples is None and not node.blank:
            self._error(
                f"check {kind}: sample_values must be true or false, got {shown_node(node)}",
                entry.node.line_of("sample_values"),
                "write sample_values: true or sample_values: false, without quotes",
            )
            return None, body, False
        return samples, body, True

    def _define(self, check: Check, kind: str, body: Value, where: Where) -> CheckDefinition | None:
        line = where.line or 1
        try:
            return check.define(body)
        except CheckFault as fault:
            self._error(f"check {kind}: {fault}", line, f"correct the options of {kind}; pz explain PZ0113 lists them")
        except PzError as error:
            self._problems.add(error if error.where != Where() else error.at(where))
        except Exception as error:  # noqa: BLE001 - a plugin can raise anything; it is named
            self._problems.add(self._kinds.broken(kind, error, where))
        return None

    def _identity(self, definition: CheckDefinition, line: int) -> str | None:
        own = "" if definition.name is None else f"={definition.name}"
        try:
            return canonical_json([definition.kind, list(definition.columns), definition.options, own])
        except ValueError:
            self._error(
                f"check {definition.kind}: an option holds a number that is not finite", line, "write a finite number"
            )
            return None

    def _repeated(self, definition: CheckDefinition, identity: str, line: int) -> bool:
        if identity in self._entries:
            before = self._entries[identity]
            self._error(
                f"check {definition.kind} is a duplicate of the entry at line {before}",
                line,
                "delete one of the two entries",
            )
            return True
        self._entries[identity] = line
        if definition.name is None:
            return False
        if definition.name in self._names:
            taken = self._names[definition.name]
            self._error(
                f"check {definition.kind}: the name '{definition.name}' is taken by the entry at line {taken}",
                line,
                "give each check a name of its own",
            )
            return True
        self._names[definition.name] = line
        return False
