"""The credential that a pod has to report its own training metrics, and nothing else.

It names the pod and is signed, so it needs no row of its own; it is good for as long as the pod runs.
"""

import hashlib
import hmac

from msgspec import Struct

PREFIX = "rt-stoker-"
GRACE_MS = 60_000
"""How long after its pod a token is still good: the last report may be on its way."""


class ReportTo(Struct, frozen=True):
    """Where pods send their metrics, and what signs their tokens."""

    server: str
    signing_key: str

    def env(self, workload_uid: str, pod_uid: str) -> dict[str, str]:
        """What code in a pod needs to report."""
        return {
            "STOKER_REPORT_URL": f"{self.server}/api/stoker/v1/workloads/{workload_uid}/training-metrics",
            "STOKER_REPORT_TOKEN": report_token(self.signing_key, pod_uid),
        }

    def __repr__(self) -> str:
        return f"ReportTo({self.server!r})"  # a log line or a traceback must not show the key


def report_token(signing_key: str, pod_uid: str) -> str:
    return f"{PREFIX}{pod_uid}.{_signature(signing_key, pod_uid)}"


def pod_of_token(signing_key: str, token: str) -> str | None:
    """The pod that a token was made for; None if it was not made here."""
    pod_uid, _, signature = token.removeprefix(PREFIX).rpartition(".")
    genuine = hmac.compare_digest(signature.encode(), _signature(signing_key, pod_uid).encode())
    return pod_uid if genuine and pod_uid else None


def _signature(signing_key: str, pod_uid: str) -> str:
    """The zero byte is in nothing else that is signed with this key."""
    return hmac.new(signing_key.encode(), f"report\0{pod_uid}".encode(), hashlib.sha256).hexdigest()
