"""The local engine: pods are processes of this machine, each with a shim of its own that outlives the server.

`LocalEngine.open` is the entry; `probe_containment` tells how well this machine can isolate jobs.
"""

from stoker.engines.local.engine import LocalEngine
from stoker.engines.local.isolation.containment import ContainmentMode, ContainmentReport, probe_containment
from stoker.engines.proxy.ports import find_free_ports

__all__ = ["ContainmentMode", "ContainmentReport", "LocalEngine", "find_free_ports", "probe_containment"]
