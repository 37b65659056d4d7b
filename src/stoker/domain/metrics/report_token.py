"""The token with which a pod reports its own training metrics; it allows nothing else.

It contains the uid of the pod and a signature, so it is not stored. It is valid while the pod runs.
"""

import hashlib
import hmac

from msgspec import Struct

TOKEN_PREFIX = "rt-stoker-"
TOKEN_GRACE_MS = 60_000
"""How long a token stays valid after its pod has ended, for the last report."""


class ReportEndpoint(Struct, frozen=True):
    """The URL that pods report to, and the key that signs their tokens."""

    server_url: str
    signing_key: str

    def pod_env(self, workload_uid: str, pod_uid: str) -> dict[str, str]:
        """Environment variables for code that reports metrics."""
        return {
            "STOKER_REPORT_URL": f"{self.server_url}/api/stoker/v1/workloads/{workload_uid}/training-metrics",
            "STOKER_REPORT_TOKEN": create_report_token(self.signing_key, pod_uid),
        }

    def __repr__(self) -> str:
        return f"ReportEndpoint({self.server_url!r})"  # a log line or a traceback must not show the key


def create_report_token(signing_key: str, pod_uid: str) -> str:
    return f"{TOKEN_PREFIX}{pod_uid}.{_sign(signing_key, pod_uid)}"


def verify_report_token(signing_key: str, token: str) -> str | None:
    """The uid of the pod that a token was issued for; None if the signature is invalid."""
    pod_uid, _, signature = token.removeprefix(TOKEN_PREFIX).rpartition(".")
    genuine = hmac.compare_digest(signature.encode(), _sign(signing_key, pod_uid).encode())
    return pod_uid if genuine and pod_uid else None


def _sign(signing_key: str, pod_uid: str) -> str:
    """The zero byte separates these signatures from all others made with this key."""
    return hmac.new(signing_key.encode(), f"report\0{pod_uid}".encode(), hashlib.sha256).hexdigest()
