"""All that the author of a plugin imports.

One protocol a plugin kind: :class:`Connector`, :class:`Strategy`, :class:`Check`, :class:`StateBackend`,
:class:`Engine`, :class:`Observer`. What crosses them is data.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pz_core.contract.capabilities import Capabilities, LoadMode
    from pz_core.contract.capture import CaptureAdmin, CaptureSource, CaptureSpec, CaptureStatus
    from pz_core.contract.check import Check, CheckDefinition, CheckFault, CheckQuery, DescribedCheck
    from pz_core.contract.connector import (
        CheckReport,
        ConnectionConfig,
        Connector,
        ConnectorError,
        CursorBounds,
        DeliveringSink,
        ForeseeingSession,
        Interruptible,
        Move,
        NativeCopy,
        NativeScan,
        NativeStream,
        NativeTarget,
        Partition,
        PipedSession,
        PlacingConnector,
        ReadHints,
        ReadSpec,
        Receipt,
        ResolvingSource,
        SettlingSource,
        Setup,
        Sink,
        Source,
        SqlWriteSession,
        WriteSession,
        WriteSpec,
        resolved_scan,
    )
    from pz_core.contract.hints import fitting_hints
    from pz_core.contract.ledger import LEDGER_TABLE, LedgerSession
    from pz_core.contract.load import SCHEMA_POLICIES, Reconciled, reconcile
    from pz_core.contract.observer import Observer
    from pz_core.contract.options import RESERVED_CONNECTION_KEYS, Option, OptionSet, option_set
    from pz_core.contract.refusals import read_refusal, refusal, trip
    from pz_core.contract.registration import API_VERSION, KINDS, Kind, Registration
    from pz_core.contract.resuming import CheckpointingSession, FeedSource, TokenRefused
    from pz_core.contract.secrets import Secret, reveal
    from pz_core.contract.state import StateBackend, StateEntry
    from pz_core.contract.strategy import LoadRequest, Probe, Strategy, StrategyTraits, Upsert, UpsertStatement

__all__ = [
    "API_VERSION",
    "KINDS",
    "LEDGER_TABLE",
    "RESERVED_CONNECTION_KEYS",
    "SCHEMA_POLICIES",
    "Capabilities",
    "CaptureAdmin",
    "CaptureSource",
    "CaptureSpec",
    "CaptureStatus",
    "Check",
    "CheckDefinition",
    "CheckFault",
    "CheckQuery",
    "CheckReport",
    "CheckpointingSession",
    "ConnectionConfig",
    "Connector",
    "ConnectorError",
    "CursorBounds",
    "DeliveringSink",
    "DescribedCheck",
    "FeedSource",
    "ForeseeingSession",
    "Interruptible",
    "Kind",
    "LedgerSession",
    "LoadMode",
    "LoadRequest",
    "Move",
    "NativeCopy",
    "NativeScan",
    "NativeStream",
    "NativeTarget",
    "Observer",
    "Option",
    "OptionSet",
    "Partition",
    "PipedSession",
    "PlacingConnector",
    "Probe",
    "ReadHints",
    "ReadSpec",
    "Receipt",
    "Reconciled",
    "Registration",
    "ResolvingSource",
    "Secret",
    "SettlingSource",
    "Setup",
    "Sink",
    "Source",
    "SqlWriteSession",
    "StateBackend",
    "StateEntry",
    "Strategy",
    "StrategyTraits",
    "TokenRefused",
    "Upsert",
    "UpsertStatement",
    "WriteSession",
    "WriteSpec",
    "fitting_hints",
    "option_set",
    "read_refusal",
    "reconcile",
    "refusal",
    "resolved_scan",
    "reveal",
    "trip",
]

#: Where each name stands. A module is imported when a name of it is first asked for: every verb opens a project,
#: which needs two of these, and most verbs need no more.
_PLACES = {
    "Capabilities": "capabilities",
    "CaptureAdmin": "capture",
    "CaptureSource": "capture",
    "CaptureSpec": "capture",
    "CaptureStatus": "capture",
    "LoadMode": "capabilities",
    "Check": "check",
    "CheckDefinition": "check",
    "CheckFault": "check",
    "CheckQuery": "check",
    "DescribedCheck": "check",
    "CheckReport": "connector",
    "ConnectionConfig": "connector",
    "Connector": "connector",
    "ConnectorError": "connector",
    "CursorBounds": "connector",
    "DeliveringSink": "connector",
    "ForeseeingSession": "connector",
    "Interruptible": "connector",
    "Move": "connector",
    "NativeCopy": "connector",
    "NativeScan": "connector",
    "NativeStream": "connector",
    "NativeTarget": "connector",
    "Partition": "connector",
    "PipedSession": "connector",
    "PlacingConnector": "connector",
    "ReadHints": "connector",
    "ReadSpec": "connector",
    "Receipt": "connector",
    "ResolvingSource": "connector",
    "SettlingSource": "connector",
    "Setup": "connector",
    "Sink": "connector",
    "Source": "connector",
    "SqlWriteSession": "connector",
    "WriteSession": "connector",
    "WriteSpec": "connector",
    "resolved_scan": "connector",
    "fitting_hints": "hints",
    "LEDGER_TABLE": "ledger",
    "LedgerSession": "ledger",
    "SCHEMA_POLICIES": "load",
    "Reconciled": "load",
    "reconcile": "load",
    "Observer": "observer",
    "RESERVED_CONNECTION_KEYS": "options",
    "Option": "options",
    "OptionSet": "options",
    "option_set": "options",
    "read_refusal": "refusals",
    "refusal": "refusals",
    "trip": "refusals",
    "API_VERSION": "registration",
    "KINDS": "registration",
    "Kind": "registration",
    "Registration": "registration",
    "CheckpointingSession": "resuming",
    "FeedSource": "resuming",
    "TokenRefused": "resuming",
    "Secret": "secrets",
    "reveal": "secrets",
    "StateBackend": "state",
    "StateEntry": "state",
    "LoadRequest": "strategy",
    "Probe": "strategy",
    "Strategy": "strategy",
    "StrategyTraits": "strategy",
    "Upsert": "strategy",
    "UpsertStatement": "strategy",
}


def __getattr__(name: str) -> Any:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"pz_core.contract.{place}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
