"""The simulated engine: a fleet of any size that exists only on paper, and behaves the same way every time.

`SimulatedEngine.open` is the door. It is an engine and a source of readings at once.
"""

from stoker.engines.simulated.engine import SimulatedEngine
from stoker.engines.simulated.machine import Group, Machines, fleet_of

__all__ = ["Group", "Machines", "SimulatedEngine", "fleet_of"]
