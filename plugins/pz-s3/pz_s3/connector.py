"""The class behind ``connector: s3``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from pz_core.contract.capabilities import Capabilities
from pz_core.contract.connector import CheckReport, ConnectionConfig, ConnectorError, ReadSpec, WriteSpec
from pz_core.contract.files import (
    READ_FORMAT_OPTIONS,
    WRITE_FORMAT_OPTIONS,
    covering_paths,
    format_faults,
    read_format,
)
from pz_core.contract.options import Option, OptionSet, option_set
from pz_core.errors import PzError
from pz_s3.client import Client
from pz_s3.faults import told
from pz_s3.places import source_place, target_folder
from pz_s3.settings import Settings, option_faults
from pz_s3.sink import ObjectSink, Target
from pz_s3.source import ObjectSource

_FORMATS = "csv, tsv, json, parquet"


class S3:
    """Objects in buckets of one store."""

    name: ClassVar[str] = "s3"
    connection_options: ClassVar[OptionSet] = option_set(
        Option("root", "string", "bucket, or bucket/prefix, that relative paths start from"),
        Option("access_key", "string", "access key", default="from the environment, profile or role", secret=True),
        Option("secret_key", "string", "secret key that belongs to it", secret=True),
        Option("session_token", "string", "session token of temporary keys", secret=True),
        Option("profile", "string", "section of the AWS profile files to take credentials and region from"),
        Option("anonymous", "boolean", "send no credentials, for buckets that anybody may read", default="false"),
        Option("region", "string", "region of the buckets", default="from the environment or profile, else us-east-1"),
        Option("endpoint", "string", "host:port of a store other than Amazon's"),
        Option(
            "url_style",
            "string",
            "where the bucket stands in addresses: in the path or in the host's name",
            default="path with endpoint, else vhost",
            choices=("vhost", "path"),
        ),
        Option("use_ssl", "boolean", "whether the store is spoken to over TLS", default="true"),
    )
    read_options: ClassVar[OptionSet] = option_set(
        Option("bucket", "string", "another bucket than the root's; the root's prefix is not used then"),
        Option("format", "string", f"one of {_FORMATS}", default="by the ending of path, else parquet"),
        Option(
            "path",
            "string",
            "key, folder or glob below root, with calendar tokens where the read has a window",
            default="<entity>.<format>",
        ),
        *READ_FORMAT_OPTIONS,
    )
    write_options: ClassVar[OptionSet] = option_set(
        Option("bucket", "string", "another bucket than the root's; the root's prefix is not used then"),
        Option("format", "string", f"one of {_FORMATS}", required=True),
        Option("path", "string", "folder below root", default="<entity>/"),
        *WRITE_FORMAT_OPTIONS,
    )
    capabilities: ClassVar[Capabilities] = Capabilities(
        reads=True,
        native_read=True,
        universal_read=True,
        native_write=True,
        universal_write=True,
        load_modes=frozenset({"add", "swap"}),
        schema_policies=frozenset({"fail_on_change"}),
        bounded_window=True,
        inclusive_bound=True,
        floor_pushdown=True,
        path_templating=True,
        transactional=True,
    )

    def __init__(self, connection: ConnectionConfig) -> None:
        self._connection = connection
        self._settings = Settings.of(connection)

    def validate(self) -> Sequence[PzError]:
        """PZ0301 for options that contradict each other."""
        return option_faults(self._connection)

    def validate_read(self, spec: ReadSpec) -> Sequence[PzError]:
        """PZ0353, PZ0361, PZ0362 and PZ0365 of one read."""
        path = spec.options.get("path")
        given = str(path) if path is not None else None
        file_format = read_format(spec.options, given, ObjectSource.default_format)
        first = None if given is None else covering_paths(given, None)[0]
        found = format_faults(f"{self._settings.name}.{spec.entity}", file_format, spec.options, "read")
        return [
            *found,
            *_faults(lambda: source_place(self._settings, spec.entity, spec.options, first, file_format)),
        ]

    def validate_write(self, spec: WriteSpec) -> Sequence[PzError]:
        """PZ0353, PZ0361, PZ0362 and PZ0365 of one write."""
        file_format = str(spec.options.get("format", "parquet"))
        found = format_faults(f"{self._settings.name}.{spec.entity}", file_format, spec.options, "write")
        return [*found, *_faults(lambda: target_folder(self._settings, spec.entity, spec.options))]

    def write_place(self, spec: WriteSpec) -> str:
        """The store, the bucket, and the keys that a write makes and replaces."""
        target = Target.of(self._settings, WriteSpec(spec.entity, spec.options, load_mode="swap"))
        return f"{self._settings.address} {target.final.shown}"

    def check(self) -> CheckReport:
        """Whether the root can be listed with these credentials; without a root, whether there are any."""
        settings, client = self._settings, Client(self._settings)
        bucket, _, prefix = settings.root.partition("/")
        try:
            with told(settings, f"connection '{settings.name}'", bucket, "asking the store"):
                if not bucket:
                    client.keys()
                    return CheckReport(True, f"credentials are there; no root: to look at on {settings.address}")
                client.reach(bucket, prefix)
        except ConnectorError as error:
            return CheckReport(False, error.message, error.hint)
        finally:
            client.close()
        return CheckReport(True, f"bucket {bucket} can be listed at {settings.address}")

    def open_source(self) -> ObjectSource:
        """Open for reading; asks nothing."""
        return ObjectSource(self._settings)

    def open_sink(self) -> ObjectSink:
        """Open for writing; asks nothing."""
        return ObjectSink(self._settings)


def _faults(attempt: Callable[[], object]) -> list[PzError]:
    try:
        attempt()
    except ConnectorError as error:
        return [PzError(error.code, error.message, hint=error.hint)]
    return []
