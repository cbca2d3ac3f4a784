"""PZ02xx: what pipelines say together: references, sinks, incremental reads, selection."""

from __future__ import annotations

from pz_core.codes.row import Code

ROWS: tuple[Code, ...] = (
    Code(
        "PZ0201",
        "a pipeline or connection does not exist",
        "ref() names no pipeline, or source() or sink() names no connection of connections.yml.",
        "Correct the spelling, or add the connection; an entity needs no declaration.",
        phase="compile",
    ),
    Code(
        "PZ0202",
        "pipelines depend on each other in a circle",
        "Following ref() from a pipeline leads back to it.",
        "Remove one ref() of the circle that the message shows, or move the shared part to a pipeline of its own.",
        phase="compile",
    ),
    Code(
        "PZ0204",
        "an ephemeral pipeline refers to an ephemeral one",
        "Ephemeral pipelines are inlined one level deep only.",
        "Make the referenced pipeline a view or a table.",
        phase="compile",
    ),
    Code(
        "PZ0205",
        "an ephemeral pipeline has checks",
        "An ephemeral pipeline has no relation of its own that a check could query.",
        "Make it a view, or move the checks to the pipeline that uses it.",
        phase="compile",
    ),
    Code(
        "PZ0206",
        "several pipelines write one output",
        "An output has more than one sink() in the project.",
        "Combine the pipelines, for example with UNION ALL in one that refers to the others.",
        phase="compile",
    ),
    Code(
        "PZ0208",
        "sink() stands where it cannot",
        "sink() is not the leading INSERT INTO of its file, stands twice, on an ephemeral pipeline, or has malformed "
        "arguments. As a warning: an option's name is one letter away from one of pz's own.",
        "Begin the file with INSERT INTO {{ sink('connection', 'entity') }}, followed by the SELECT.",
        severity="error/warning",
        phase="compile",
    ),
    Code(
        "PZ0209",
        "a strategy needs keys",
        "The strategy finds rows by key and no keys are given, or a key is no column of the batch.",
        "Add keys: ['id'] to the sink, and select those columns in the pipeline.",
        phase="compile",
    ),
    Code(
        "PZ0210",
        "a selector matches nothing",
        "A name or a part of --select matches no pipeline, tag or dataset, or cannot be read.",
        "pz ls shows names, tags and flows.",
        phase="select",
    ),
    Code(
        "PZ0211",
        "keys on a strategy that takes none",
        "keys are given with a strategy that does not look at them.",
        "Remove keys, or choose merge or another strategy with keys.",
        phase="compile",
    ),
    Code(
        "PZ0212",
        "the cursor does not fit the contract",
        "The cursor of an incremental read is missing from columns:, or has a type that cannot be a cursor.",
        "Add the cursor to columns: with one of the types that the message lists.",
        phase="compile",
    ),
    Code(
        "PZ0213",
        "a window of an incremental read is unusable",
        "max_window, initial and until contradict each other, the cursor's type or the contract.",
        "Correct the key that the message names; each broken rule is one error.",
        phase="compile",
    ),
    Code(
        "PZ0214",
        "rows could be loaded twice",
        "An incremental read feeds an output whose strategy adds the same batch again when it is repeated, or "
        "duplicates: 'refuse' stands below a read whose rows cannot be told from those of the last one (>=, a look "
        "back, a feed).",
        "Use a strategy with keys, such as merge, or consent with duplicates: 'accept', or let a target with a ledger "
        "skip what it has with duplicates: 'refuse' and > watermark().",
        phase="compile",
    ),
    Code(
        "PZ0215",
        "several flows and no selection",
        "The project has more than one independent flow, and the command does not say which to run.",
        "Name a flow, pass --select, or pass --all.",
        phase="select",
    ),
    Code(
        "PZ0216",
        "several ways of selecting at once",
        "Names, --select and --all exclude each other.",
        "Keep one of them.",
        phase="cli",
    ),
    Code(
        "PZ0217",
        "a dated path needs an incremental cursor",
        "The path of a read has calendar tokens, but no cursor of type date or timestamp says which days to read.",
        "Read incrementally on such a column, or use a path without tokens.",
        phase="compile",
    ),
    Code(
        "PZ0218",
        "calendar tokens of a path are out of order",
        "Tokens are unknown, do not begin with the year, or skip a level.",
        "Use {yyyy}, then {MM}, {dd}, {HH}, {mm}, coarse to fine without a gap.",
        phase="compile",
    ),
    Code(
        "PZ0219",
        "partition_by does not fit",
        "partition_by is no column name or list of names, is missing where the path has tokens, or names "
        "several columns.",
        "Name one date or timestamp column where the path has tokens.",
        phase="compile",
    ),
    Code(
        "PZ0220",
        "the partition column is missing",
        "partition_by names a column that the rows do not have.",
        "Select the column in the pipeline, or correct its name.",
        phase="run",
    ),
    Code(
        "PZ0221",
        "a dated path needs a window",
        "A path with calendar tokens is read with a date cursor, but without both initial and max_window.",
        "Add both, so that every run covers a known range of folders.",
        phase="compile",
    ),
    Code(
        "PZ0222",
        "files_per_partition is unusable",
        "files_per_partition is no whole number above zero.",
        "Write a whole number of at least 1.",
        phase="compile",
    ),
    Code(
        "PZ0223",
        "nothing uses a pipeline",
        "A pipeline has no sink and no check, and no other pipeline refers to it.",
        "Give it a sink, refer to it, or delete it.",
        severity="warning",
        phase="compile",
    ),
    Code(
        "PZ0224",
        "a watermark comparison cannot be used",
        "watermark() stands where its comparison would not limit what is read: under OR, NOT or CASE, on the preserved "
        "side of an outer join, against a computed column, or beside another watermark().",
        "Write cursor > {{ watermark('connection', 'entity') }} as a condition of its own in the WHERE of the query "
        "that reads the source.",
        phase="compile",
    ),
    Code(
        "PZ0225",
        "a dataset is incremental in YAML and in SQL",
        "sync: in connections.yml and watermark() in a pipeline both say how the dataset is read.",
        "Keep one of the two.",
        phase="compile",
    ),
    Code(
        "PZ0227",
        "a SQL cursor does not fit the contract",
        "The column compared with watermark() is missing from columns:, or has a type that cannot be a cursor.",
        "Add the column to columns: with one of the types that the message lists.",
        phase="compile",
    ),
    Code(
        "PZ0229",
        "a truncated descending read cannot be incremental",
        "cursor_order: desc with max_pages could skip rows for ever when it stops early.",
        "Read ascending, or drop max_pages.",
        phase="compile",
    ),
    Code(
        "PZ0230",
        "a pipeline has the name of a staging relation",
        "A pipeline is called like the relation in which a dataset lands, such as src_shop__orders.",
        "Rename the pipeline.",
        phase="compile",
    ),
    Code(
        "PZ0231",
        "a dataset has several SQL cursors",
        "Comparisons with watermark() of one dataset use different columns.",
        "Compare one column only.",
        phase="compile",
    ),
)
