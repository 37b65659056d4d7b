"""The Docker engine: pods are containers of one Docker host, labelled with the installation that made them.

`DockerEngine` is the entry; `DockerConfig` is what a cluster stores.
"""

from stoker.engines.docker.config import DockerConfig, GpuVendor, PullPolicy, TlsConfig, check_config
from stoker.engines.docker.engine import DockerEngine

__all__ = ["DockerConfig", "DockerEngine", "GpuVendor", "PullPolicy", "TlsConfig", "check_config"]
