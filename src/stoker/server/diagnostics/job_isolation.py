"""How the jobs of this machine are kept: from each other, from the platform, and within their limits."""

from collections.abc import Iterator

from stoker.domain.errors import StokerError
from stoker.domain.settings import LocalTrust, Settings
from stoker.engines.local import ContainmentMode, containment
from stoker.server.checks.finding import Finding, broken, ok, warning

NAME = "local jobs"


def kept(settings: Settings) -> Iterator[Finding]:
    """What this machine allows, and who may run jobs here because of it."""
    try:
        found = containment(ContainmentMode(settings.containment), settings.local_user)
    except StokerError as error:
        yield broken(NAME, error.message, error.hint)
        return
    for sentence in found.sentences:
        yield ok(NAME, sentence)
    if found.mount_namespace:
        yield ok(NAME, "They cannot reach the platform; every member of a workspace may run them.")
    elif settings.local_trust is LocalTrust.SHARED:
        yield warning(NAME, "They can reach the platform, and everyone may run them (local_trust is shared).", "")
    else:
        yield warning(
            NAME,
            "They can reach the platform, so only admins may run them.",
            "Allow user namespaces or run Stoker as root; or set local_trust to shared if you trust everyone.",
        )
