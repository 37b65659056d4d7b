"""The local engine: pods are processes of this machine, each with a keeper of its own that outlives the server.

`LocalEngine.open` is the door; `containment` says what this machine can do to keep jobs apart.
"""

from stoker.engines.local.containment import Containment, ContainmentMode, containment
from stoker.engines.local.engine import LocalEngine
from stoker.engines.local.ports import free_ports

__all__ = ["Containment", "ContainmentMode", "LocalEngine", "containment", "free_ports"]
