"""Checks how jobs on this machine are isolated from each other and from the platform, and limited."""

from collections.abc import Iterator

from stoker.domain.diagnostics import Finding, broken, ok, warning
from stoker.domain.errors import StokerError
from stoker.domain.settings.schema import LocalTrust, Settings
from stoker.engines.local import ContainmentMode, probe_containment

CHECK_NAME = "local jobs"


def check_isolation(settings: Settings) -> Iterator[Finding]:
    """The isolation that this machine supports, and who may run jobs as a result."""
    try:
        found = probe_containment(ContainmentMode(settings.containment), settings.local_user)
    except StokerError as error:
        yield broken(CHECK_NAME, error.message, error.hint)
        return
    for sentence in found.descriptions:
        yield ok(CHECK_NAME, sentence)
    if found.mount_namespace:
        yield ok(CHECK_NAME, "They cannot reach the platform; every member of a workspace may run them.")
    elif settings.local_trust is LocalTrust.SHARED:
        yield warning(CHECK_NAME, "They can reach the platform, and everyone may run them (local_trust is shared).", "")
    else:
        yield warning(
            CHECK_NAME,
            "They can reach the platform, so only admins may run them.",
            "Allow user namespaces or run Stoker as root; or set local_trust to shared if you trust everyone.",
        )
