"""All that the author of a plugin imports.

One protocol a plugin kind: :class:`Connector`, :class:`Strategy`, :class:`Check`, :class:`StateBackend`,
:class:`Engine`, :class:`Observer`. What crosses them is data.
"""

from __future__ import annotations

from pz_core.contract.capabilities import Capabilities, LoadMode
from pz_core.contract.check import Check, CheckDefinition, CheckFault, CheckQuery
from pz_core.contract.connector import (
    CheckReport,
    ConnectionConfig,
    Connector,
    ConnectorError,
    CursorBounds,
    Move,
    NativeCopy,
    NativeScan,
    NativeTarget,
    Partition,
    ReadHints,
    ReadSpec,
    Receipt,
    ResolvingSource,
    Setup,
    Sink,
    Source,
    SqlWriteSession,
    WriteSession,
    WriteSpec,
    resolved_scan,
)
from pz_core.contract.load import SCHEMA_POLICIES, Reconciled, reconcile
from pz_core.contract.observer import Observer
from pz_core.contract.options import RESERVED_CONNECTION_KEYS, Option, OptionSet, option_set
from pz_core.contract.refusals import read_refusal, refusal
from pz_core.contract.registration import API_VERSION, KINDS, Kind, Registration
from pz_core.contract.secrets import Secret, reveal
from pz_core.contract.state import StateBackend, StateEntry
from pz_core.contract.strategy import LoadRequest, Probe, Strategy, StrategyTraits

__all__ = [
    "API_VERSION",
    "KINDS",
    "RESERVED_CONNECTION_KEYS",
    "SCHEMA_POLICIES",
    "Capabilities",
    "Check",
    "CheckDefinition",
    "CheckFault",
    "CheckQuery",
    "CheckReport",
    "ConnectionConfig",
    "Connector",
    "ConnectorError",
    "CursorBounds",
    "Kind",
    "LoadMode",
    "LoadRequest",
    "Move",
    "NativeCopy",
    "NativeScan",
    "NativeTarget",
    "Observer",
    "Option",
    "OptionSet",
    "Partition",
    "Probe",
    "ReadHints",
    "ReadSpec",
    "Receipt",
    "Reconciled",
    "Registration",
    "ResolvingSource",
    "Secret",
    "Setup",
    "Sink",
    "Source",
    "SqlWriteSession",
    "StateBackend",
    "StateEntry",
    "Strategy",
    "StrategyTraits",
    "WriteSession",
    "WriteSpec",
    "option_set",
    "read_refusal",
    "reconcile",
    "refusal",
    "resolved_scan",
    "reveal",
]
