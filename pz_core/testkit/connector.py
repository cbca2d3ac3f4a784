"""The suite for connectors."""

from __future__ import annotations

from pz_core.testkit.connector_apart import ApartRules
from pz_core.testkit.connector_declared import DeclaredRules
from pz_core.testkit.connector_errors import ErrorRules
from pz_core.testkit.connector_ledger import LedgerRules
from pz_core.testkit.connector_read import ReadRules
from pz_core.testkit.connector_values import ValueRules
from pz_core.testkit.connector_write import WriteRules


class ConnectorSuite(LedgerRules, ApartRules, ValueRules, WriteRules, ReadRules, ErrorRules, DeclaredRules):
    """What every connector owes, checked on one.

    Subclass it in a test file, name the connector and say what a place to test with looks like::

        class TestNotes(ConnectorSuite):
            connector = Notes

            def options(self):
                return {"folder": "notes"}

    Which rules apply follows from the connector's record of abilities. What is not kept yet is marked in ``not_yet``
    with :func:`~pz_core.testkit.rules.notyet`.
    """
