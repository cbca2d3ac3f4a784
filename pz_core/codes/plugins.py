"""PZ07xx plugins, PZ08xx scd strategies, drift and values."""

from __future__ import annotations

from pz_core.codes.row import Code

ROWS: tuple[Code, ...] = (
    Code(
        "PZ0701",
        "a plugin cannot be imported",
        "Importing the plugin's module or calling its hook raised an error; other plugins are not affected.",
        "Reinstall or upgrade the distribution that the message names, or uninstall it.",
        phase="validate",
    ),
    Code(
        "PZ0702",
        "two distributions offer one name",
        "Two installed distributions register the same connector, check, strategy, state backend, engine or observer.",
        "Uninstall one, or list only one of them in project.yml.",
        phase="validate",
    ),
    Code(
        "PZ0703",
        "a distribution is installed twice",
        "Two versions of one distribution are on the path; which one Python imports depends on the order of folders.",
        "Remove one of the two folders that the message names.",
        phase="validate",
    ),
    Code(
        "PZ0704",
        "a plugin was made for another plugin API",
        "The range of API versions that the plugin states does not include this version of pz.",
        "Install a version of the plugin made for this pz, or a pz that it was made for.",
        phase="validate",
    ),
    Code(
        "PZ0705",
        "a plugin registers wrongly",
        "An unknown hook, a hook with wrong arguments or results, a name that entry point and hook do not share, or an "
        "option that connector and strategy both declare.",
        "Report it to the plugin's authors; pz plugins check tells them all that is wrong.",
        phase="validate",
    ),
    Code(
        "PZ0706",
        "a plugin breaks rules of the kit",
        "pz plugins check ran the rules for its kind, and some are not kept; the score card names them.",
        "Mend the plugin; its test file runs the same rules one by one.",
        phase="cli",
    ),
    Code(
        "PZ0707",
        "there is no such plugin to check",
        "pz plugins check names neither a plugin nor a package that is installed here.",
        "pz plugins lists what is installed; install the package first (python -m pip install -e .).",
        phase="cli",
    ),
    Code(
        "PZ0708",
        "a plugin cannot have this name",
        "pz plugins new was given a name with other characters than lower-case letters, digits and _, or one that pz "
        "itself ships.",
        "Choose a name such as fixed_width.",
        phase="cli",
    ),
    Code(
        "PZ0801",
        "an option of an scd strategy is unusable",
        "An option has a value or a combination that scd1 or scd2 does not allow, such as delete_mode: hard under "
        "scd2.",
        "Use one of the values that the message lists.",
        phase="compile",
    ),
    Code(
        "PZ0802",
        "a snapshot lacks too many keys",
        "More of the active keys than snapshot_max_missing_ratio are absent from the batch. Nothing was written.",
        "Find out whether the source delivered everything; raise the ratio for a run if it is right.",
        phase="run",
    ),
    Code(
        "PZ0803",
        "a snapshot is empty",
        "The batch has no rows, which would delete every key. Nothing was written.",
        "Find out why; snapshot_allow_empty: true says that an empty batch is meant.",
        phase="run",
    ),
    Code(
        "PZ0804",
        "schema_policy refuses the batch",
        "Columns of the batch and of the target differ in a way that the policy does not allow.",
        "Change the pipeline or the target, or choose additive, evolve or ignore.",
        phase="run",
    ),
    Code(
        "PZ0805",
        "a surrogate key is refused",
        "surrogate_key names a column that the source has, a key or a reserved name, or an existing target lacks it.",
        "Choose another name, or rebuild the target with the column.",
        phase="run",
    ),
    Code(
        "PZ0806",
        "a row has the key of the unknown member",
        "A row of the batch has the sentinel that stands for the unknown member in every key column.",
        "Filter the row out or give it another key; unknown_member: false drops the reservation.",
        phase="run",
    ),
    Code(
        "PZ0811",
        "the row counts of a node disagree",
        "Rows read, staged, written and rejected do not add up, so rows would have been lost or made up.",
        "Run again; if it stays, report it with the connector and the counts of the message.",
        phase="run",
    ),
    Code(
        "PZ0812",
        "a value cannot be carried exactly",
        "A value does not fit the type that it should become: out of range, too precise, not a number, or unknown to "
        "the target. The message names column, row and type, never the value.",
        "Cast or clean the column in the pipeline, declare a wider type under columns:, or widen the target.",
        phase="run",
    ),
)
