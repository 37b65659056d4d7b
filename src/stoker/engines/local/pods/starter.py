"""Brings pods to life, each once: whoever comes second finds the keeper, or what it left, and starts nothing."""

import asyncio
import os

import msgspec

from stoker.domain.errors import ErrorCode, StokerError
from stoker.engines.base import Order, PodOrder
from stoker.engines.failpoints import failpoint
from stoker.engines.local.launch import ERRORS, launch
from stoker.engines.local.orders import Limits, make_pod, remember
from stoker.engines.local.places import Places
from stoker.engines.local.pods import Pod, read_pod
from stoker.engines.local.ports import free_ports
from stoker.engines.local.roster import Roster

_SHOWN_CHARACTERS = 300


class Starter:
    def __init__(self, places: Places, limits: Limits, roster: Roster) -> None:
        self._places = places
        self._limits = limits
        self._roster = roster
        self._at_once = asyncio.Semaphore(max(4, 2 * (os.cpu_count() or 1)))

    async def start(self, order: Order, wanted: PodOrder) -> Pod:
        """Make this pod run, if it never has."""
        pod = self._roster.pods.get(wanted.uid) or read_pod(self._places.pod(wanted.uid))
        if pod is not None and (pod.started or pod.ended or pod.link):
            self._keep(pod, order)
            return pod
        try:
            pod = self._prepare(order, wanted, pod)
        except OSError as error:
            hint = f"Look at the room and the permissions of {self._places.data_dir}."
            raise StokerError(
                ErrorCode.BACKEND_DOWN, f"Pod {wanted.name} cannot be made: {error}", hint=hint
            ) from error
        self._roster.add(pod)
        failpoint("engine.pod-made")
        reason = await self._launch(pod)
        failpoint("engine.started-recorded")
        await self._roster.meet(pod, reason or "Its keeper died before the command began.")
        return pod

    def _keep(self, pod: Pod, order: Order) -> None:
        """A pod that a newer revision still wants belongs to that revision."""
        if order.revision > pod.record.revision:
            pod.record = msgspec.structs.replace(pod.record, revision=order.revision)
            remember(pod.path, pod.record)
            self._roster.add(pod)

    def _prepare(self, order: Order, wanted: PodOrder, before: Pod | None) -> Pod:
        port = wanted.port or (before.record.port if before else 0)
        if order.service and not port:
            [port] = free_ports(1, {pod.record.port for pod in self._roster.pods.values()})
        return make_pod(self._places, self._limits, order, wanted, port)

    async def _launch(self, pod: Pod) -> str:
        """Why it did not work, or nothing."""
        try:
            async with self._at_once:
                code = await launch(pod.path)
        except OSError as error:
            return f"Its keeper could not be started: {error}"
        if code == 0:
            return ""
        said = (pod.path / ERRORS).read_text(errors="replace").strip()
        return f"Its keeper ended with {code}. {said[-_SHOWN_CHARACTERS:]}".strip()
