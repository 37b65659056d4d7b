"""The credential that a server shows to the engine of a cluster."""

from collections.abc import Mapping

from msgspec import Struct


class ClusterCredential(Struct, frozen=True):
    """Values by name, such as the `key` of a TLS client; with `by_reference` each is the path of a file on the server.
    Its repr hides the values, so logs and tracebacks do not leak them."""

    values: Mapping[str, str] = {}
    by_reference: bool = False

    def __repr__(self) -> str:
        return f"ClusterCredential({', '.join(sorted(self.values))})"


NO_CREDENTIAL = ClusterCredential()
