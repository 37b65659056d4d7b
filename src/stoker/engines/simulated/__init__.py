"""The simulated engine: a deterministic fleet of any size, without hardware.

`SimulatedEngine.open` is the entry. It is both an engine and a collector of samples.
"""

from stoker.engines.simulated.engine import SimulatedEngine
from stoker.engines.simulated.fleet.nodes import MachineGroup, SimulatedFleet, build_machine_groups

__all__ = ["MachineGroup", "SimulatedEngine", "SimulatedFleet", "build_machine_groups"]
