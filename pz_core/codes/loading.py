"""PZ01xx: reading ``project.yml``, ``connections.yml``, sidecars, and what ``init`` makes."""

from __future__ import annotations

from pz_core.codes.row import Code

ROWS: tuple[Code, ...] = (
    Code(
        "PZ0101",
        "a project file has the wrong shape",
        "A YAML file cannot be parsed, repeats a key, or holds something else than its place asks for: a list where a "
        "mapping belongs, an unknown key, a missing name or version, a type word that columns: does not know.",
        "Go to the file and line of the message and write what it asks for. A value that looks like another type, such "
        "as version: 1.0, must be quoted.",
    ),
    Code(
        "PZ0102",
        "variables are not a JSON object or a mapping",
        "--vars is no JSON object, or vars: in project.yml is no mapping.",
        'Pass an object, as in --vars \'{"day": "2026-01-31"}\', or write vars: as a mapping of names to values.',
    ),
    Code(
        "PZ0103",
        "an environment variable is not available",
        "${NAME} or env('NAME') names a variable that is not set, or env() names one that project.yml does not list "
        "under env:.",
        "Set the variable before the command, check its spelling, and list its name under env: if a template reads it.",
    ),
    Code(
        "PZ0104",
        "a template cannot be rendered",
        "A call spans several lines, a name or function is unknown, an argument has the wrong kind or number, a loop "
        "turns more than 10,000 times, or {{, {% or {# was meant for SQL.",
        "Close the call on its own line or move its options to connections.yml; write {{ '{%' }} for braces that SQL "
        "itself needs.",
        phase="compile",
    ),
    Code(
        "PZ0110",
        "two things would have one name",
        "Two .sql files have one stem, or two entities that pipelines use fold to one staging relation.",
        "Rename one of the two files, or one of the two connections or entities.",
        phase="compile",
    ),
    Code(
        "PZ0111",
        "a sidecar names no pipeline",
        "pipeline: in a file of pipelines/configs is missing, or no .sql file has that stem.",
        "Write the stem of an existing .sql file; the sidecar's own file name does not matter.",
    ),
    Code(
        "PZ0112",
        "sink() no longer takes input",
        "A sink() call has the argument input, which earlier versions read.",
        "Delete it: the pipeline's own SELECT is what the sink loads.",
        phase="compile",
    ),
    Code(
        "PZ0113",
        "a check is not well-formed",
        "A check of a sidecar has an unknown kind, a missing, wrong or superfluous option, or stands twice.",
        "Correct the option that the message names; pz plugins lists the checks that are installed.",
    ),
    Code(
        "PZ0120",
        "an engine setting is unusable",
        "A key under engine: in project.yml is unknown, has another type, or lies outside its bounds.",
        "Use the bounds that the message states; numbers are written without quotes.",
    ),
    Code(
        "PZ0121",
        "a retry block is unusable",
        "retry: holds an unknown key, max_attempts below 1, a delay that is no duration, or max_delay below "
        "base_delay.",
        "Write for example retry: {max_attempts: 5, base_delay: 1s, max_delay: 1m}.",
    ),
    Code(
        "PZ0122",
        "max_concurrency is unusable or misplaced",
        "max_concurrency is no whole number of at least 1, or stands at a call or an entity.",
        "Write a whole number under the connection, where it limits all nodes of that connection.",
    ),
    Code(
        "PZ0123",
        "retention is unusable",
        "retention: is neither off nor a mapping with keep_last of at least 1.",
        "Write retention: {keep_last: 10}, or retention: off to keep every staging file.",
    ),
    Code(
        "PZ0124",
        "the state block is unusable",
        "state: has an unknown backend, a key that its backend does not take, or events without artifacts.",
        "Keep the keys that the message lists for the backend.",
    ),
    Code(
        "PZ0125",
        "the state backend has no credentials",
        "The backend needs a connection or a URL and none can be found, or the connection is of another connector.",
        "Name a fitting connection under state:, or set the environment variable that the message names.",
    ),
    Code(
        "PZ0126",
        "on_source_drift is unknown",
        "on_source_drift: is none of ignore, warn and fail.",
        "Write one of the three.",
    ),
    Code(
        "PZ0127",
        "no observed schema to accept",
        "schema accept names a dataset whose columns the newest run did not record.",
        "Run the pipeline that reads the dataset once, then accept.",
        phase="cli",
    ),
    Code(
        "PZ0130",
        "the folder for a new project is not empty",
        "init was pointed at a folder that holds files, or at a file.",
        "Choose a new or an empty folder.",
        phase="cli",
    ),
    Code(
        "PZ0131",
        "the template is unknown",
        "init names a template that does not exist.",
        "pz init --list-templates shows those that do.",
        phase="cli",
    ),
    Code(
        "PZ0132",
        "init needs a name or --list-templates",
        "Neither or both were given.",
        "Write pz init my_project, or pz init --list-templates.",
        phase="cli",
    ),
    Code(
        "PZ0133",
        "an entity holds ${…}, which stays as written",
        "Variables are filled in in a connection's own keys, never under entities:.",
        "Move the value to the connection, or use env() in the pipeline.",
        severity="warning",
    ),
    Code(
        "PZ0134",
        "the materialization is unknown",
        "materialization: is none of table, view and ephemeral.",
        "Write one of the three.",
    ),
    Code(
        "PZ0135",
        "a .yaml file is not read",
        "Only project.yml, connections.yml and pipelines/configs/*.yml are read.",
        "Rename the file to .yml.",
        severity="warning",
    ),
    Code(
        "PZ0136",
        "a name is no identifier",
        "A pipeline's file or a connection has a name with other characters than letters, digits and _, begins with a "
        "digit, or a connection's name holds two underscores in a row.",
        "Rename it as the hint proposes.",
    ),
    Code(
        "PZ0137",
        "an option's value has no JSON form",
        "An option holds a number that is not finite, or another value that cannot be recorded.",
        "Write a finite number or a text.",
        phase="compile",
    ),
    Code(
        "PZ0138",
        "this version of pz does not fit the project",
        "pz: in project.yml asks for other versions than the one that runs.",
        "Install a version in the range, or widen pz: after testing.",
    ),
    Code(
        "PZ0139",
        "a package is listed twice",
        "connectors: and plugins: name one package with different versions.",
        "Keep one of the two lines.",
    ),
)
