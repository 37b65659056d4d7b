"""All behaviours of an engine. A module that provides `engine_fixture` and imports everything from here runs them."""

from tests.conformance.behaviours.adoption import TestAdoption
from tests.conformance.behaviours.applying import TestApply
from tests.conformance.behaviours.contact import TestContact
from tests.conformance.behaviours.crashes import TestCrashes
from tests.conformance.behaviours.endings import TestEnds
from tests.conformance.behaviours.environment import TestEnvironment
from tests.conformance.behaviours.exec_sessions import TestExec
from tests.conformance.behaviours.foreign import TestForeign
from tests.conformance.behaviours.log_reading import TestLogs
from tests.conformance.behaviours.removal import TestRemoval
from tests.conformance.behaviours.rollouts import TestRollouts
from tests.conformance.behaviours.services import TestServices
from tests.conformance.behaviours.termination import TestTerminate
from tests.conformance.behaviours.watching import TestWatch
from tests.conformance.harness import harness

__all__ = [
    "TestAdoption",
    "TestApply",
    "TestContact",
    "TestCrashes",
    "TestEnds",
    "TestEnvironment",
    "TestExec",
    "TestForeign",
    "TestLogs",
    "TestRemoval",
    "TestRollouts",
    "TestServices",
    "TestTerminate",
    "TestWatch",
    "harness",
]
