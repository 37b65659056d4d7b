"""The audit log and the settings in force."""

from typing import Any

from stoker.wire.base import WireStruct
from stoker.wire.timestamps import Timestamp


class AuditView(WireStruct, frozen=True):
    id: str
    at: Timestamp
    actor: str
    credential: str
    address: str
    action: str
    target: str
    result: str
    detail: str
    trace_id: str


class AuditPage(WireStruct, frozen=True):
    """Newest first; `next` goes into `before` for the following page, null on the last."""

    items: tuple[AuditView, ...]
    next: str | None

    @property
    def total(self) -> None:
        """The audit log is not counted."""

    def next_cursor(self, start: str) -> str | None:
        return self.next


class SettingView(WireStruct, frozen=True):
    name: str
    value: Any
    description: str


class SettingsView(WireStruct, frozen=True):
    version: str
    settings: tuple[SettingView, ...]
