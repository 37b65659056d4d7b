"""Clusters: every signed-in caller may list them, admins add, change, check and remove them."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import UNSET, Struct, UnsetType, structs

from stoker.domain.access.identity import Cluster
from stoker.domain.access.permission_rules import Action
from stoker.domain.access.permissions import Actor
from stoker.domain.clock import format_rfc3339
from stoker.domain.cluster.credential import NO_CREDENTIAL, ClusterCredential
from stoker.domain.cluster.engine_catalog import EngineCatalog
from stoker.domain.cluster.quantity import humanize_count
from stoker.domain.diagnostics import Finding, broken, ok, warning
from stoker.domain.errors import ErrorCode, StokerError, already_exists, bad_request
from stoker.domain.names import check_slug, new_uuid4
from stoker.domain.queries.pages import PageRequest, PageResult
from stoker.services.context import Context, authorise, record_audit
from stoker.services.fleet.credential_cipher import KEY_FILE, CredentialCipher
from stoker.services.fleet.leadership import ClusterLeadership
from stoker.services.idempotency import IdempotencyKey, idempotent
from stoker.store.cluster import clusters, nodes, removal
from stoker.store.db.base import Transaction
from stoker.store.identity import workspaces
from stoker.store.workloads import rows

MAX_LISTED_NAMES = 5


class CreateClusterInput(Struct, frozen=True, kw_only=True):
    """`settings` are those of the engine, by name; what is left out has its default."""

    name: str
    engine: str
    description: str = ""
    settings: Mapping[str, object] = {}
    credential: ClusterCredential = NO_CREDENTIAL


class UpdateClusterInput(Struct, frozen=True, kw_only=True):
    """UNSET and settings that are left out keep their value. `engine` is the one that the settings are for."""

    description: str | UnsetType = UNSET
    engine: str = ""
    settings: Mapping[str, object] = {}
    credential: ClusterCredential | UnsetType = UNSET


class ClusterService:
    def __init__(self, context: Context, catalog: EngineCatalog) -> None:
        self._context = context
        self._catalog = catalog
        self._leadership = ClusterLeadership(context)
        self._cipher = CredentialCipher(Path(context.settings.data_dir) / KEY_FILE)

    async def list_clusters(self, actor: Actor, text: str, window: PageRequest) -> PageResult[Cluster]:
        authorise(actor, Action.CLUSTER_READ)
        return await self._context.store.read(lambda tx: clusters.list_clusters(tx, text, window))

    async def read(self, actor: Actor, ref: str) -> Cluster:
        authorise(actor, Action.CLUSTER_READ)
        return await self._context.store.read_inline(lambda tx: clusters.get(tx, ref))

    async def create(self, actor: Actor, new: CreateClusterInput, once: IdempotencyKey | None = None) -> Cluster:
        """Add a cluster. It need not be reachable: the server connects to it when it is."""
        authorise(actor, Action.CLUSTER_CREATE)
        check_slug(new.name, "name")
        self._catalog.check_credential(new.engine, new.credential)
        parsed = self._catalog.parse_settings(new.engine, new.settings, has_credential=bool(new.credential.values))
        cluster_id = new_uuid4(self._context.randomness)
        sealed = await asyncio.to_thread(self._cipher.seal, new.credential, cluster_id)
        now = self._context.clock.now()
        cluster = Cluster(
            id=cluster_id,
            name=new.name,
            engine=new.engine,
            description=new.description,
            created_at=now,
            updated_at=now,
            config=parsed.config,
            capabilities=parsed.capabilities,
            has_credential=bool(sealed),
        )

        def change(transaction: Transaction) -> Cluster:
            if clusters.find(transaction, new.name):
                raise already_exists("cluster", new.name)
            clusters.add(transaction, cluster, sealed)
            record_audit(self._context, transaction, actor, Action.CLUSTER_CREATE, new.name, f"engine {new.engine}")
            return cluster

        created = await self._context.store.write(idempotent(self._context, actor, once, Cluster, change))
        self._catalog.clusters_changed()
        return created

    async def update(self, actor: Actor, ref: str, edit: UpdateClusterInput) -> Cluster:
        """Change a cluster. New settings are in force at once, without a restart; pods keep running."""
        authorise(actor, Action.CLUSTER_UPDATE)
        known = await self._context.store.read_inline(lambda tx: clusters.get(tx, ref))
        sealed: str | None = None
        if not isinstance(edit.credential, UnsetType):
            self._check_engine(known, edit.engine)
            self._catalog.check_credential(known.engine, edit.credential)
            sealed = await asyncio.to_thread(self._cipher.seal, edit.credential, known.id)

        def change(transaction: Transaction) -> Cluster:
            cluster = clusters.get(transaction, known.id)
            changes: dict[str, object] = {"updated_at": self._context.clock.now()}
            changed = [f"settings {', '.join(sorted(edit.settings))}"] if edit.settings else []
            if not isinstance(edit.description, UnsetType):
                changes["description"] = edit.description
                changed.append("description")
            if edit.settings or sealed is not None:
                self._check_engine(cluster, edit.engine)
                stored = msgspec.json.decode(cluster.config, type=dict[str, object])
                has_credential = cluster.has_credential if sealed is None else bool(sealed)
                parsed = self._catalog.parse_settings(
                    cluster.engine, {**stored, **edit.settings}, has_credential=has_credential
                )
                changes |= {"config": parsed.config, "capabilities": parsed.capabilities}
            clusters.update(transaction, structs.replace(cluster, **changes))
            if sealed is not None:
                clusters.set_credential(transaction, cluster.id, sealed)
                changed.append("credential")
            detail = ", ".join(changed)
            record_audit(self._context, transaction, actor, Action.CLUSTER_UPDATE, cluster.name, detail)
            return clusters.get(transaction, cluster.id)

        updated = await self._context.store.write(change)
        self._catalog.clusters_changed()
        return updated

    async def remove(self, actor: Actor, ref: str, *, release: bool) -> None:
        """Remove a cluster with its history. It must be empty, unless its workloads are released: then they keep
        running where they are, and Stoker forgets them and their workspaces."""
        authorise(actor, Action.CLUSTER_DELETE)

        def change(transaction: Transaction) -> None:
            cluster = clusters.get(transaction, ref)
            self._catalog.check_editable(cluster)
            live = [each for each in rows.unfinished_of_cluster(transaction, cluster.id) if each.managed]
            if not release:
                _check_empty(transaction, cluster, [workload.slug for workload in live])
            removal.remove_cluster(transaction, cluster.id)
            detail = f"released {humanize_count(len(live), 'workload')}" if live else ""
            record_audit(self._context, transaction, actor, Action.CLUSTER_DELETE, cluster.name, detail)

        await self._context.store.write(change)
        self._catalog.clusters_changed()

    async def check(self, actor: Actor, ref: str) -> list[Finding]:
        """Find out what is wrong with a cluster, and what to do about it."""
        authorise(actor, Action.CLUSTER_CHECK)
        cluster = await self._context.store.read_inline(lambda tx: clusters.get(tx, ref))
        findings = await self._catalog.check_cluster(cluster)
        return [*findings, await self._context.store.read_inline(lambda tx: self._check_state(tx, cluster.id))]

    def _check_engine(self, cluster: Cluster, engine: str) -> None:
        """Raise unless settings of this engine can be changed there."""
        self._catalog.check_editable(cluster)
        if engine != cluster.engine:
            raise bad_request(engine, f'the engine of cluster "{cluster.name}" is {cluster.engine}.')

    def _check_state(self, transaction: Transaction, cluster_id: str) -> Finding:
        """What the controller of the cluster says."""
        cluster = clusters.get(transaction, cluster_id)
        if (leaderless := self._leadership.clusters_without_leader(transaction).get(cluster_id)) is not None:
            return warning("controller", f"{leaderless.message}.", leaderless.hint)
        if cluster.unreachable_since is not None:
            since = format_rfc3339(cluster.unreachable_since)
            return broken("controller", f"It cannot be reached since {since}: {cluster.unreachable_message}", "")
        found = nodes.of_cluster(transaction, cluster_id)
        gpus = sum(len(node.devices) for node in found)
        return ok(
            "controller", f"It is driven: {humanize_count(len(found), 'node')} with {humanize_count(gpus, 'GPU')}."
        )


def _check_empty(transaction: Transaction, cluster: Cluster, live: list[str]) -> None:
    release = f"leave them and forget them with: stoker cluster remove {cluster.name} --release"
    if live:
        raise StokerError(
            ErrorCode.CONFLICT,
            f'Cluster "{cluster.name}" has workloads that have not ended ({len(live)}): {_summarize(live)}.',
            hint=f"Stop them with: stoker stop {live[0]} …, or {release}",
        )
    if homes := [workspace.name for workspace in workspaces.of_cluster(transaction, cluster.id)]:
        raise StokerError(
            ErrorCode.CONFLICT,
            f'Cluster "{cluster.name}" has workspaces ({len(homes)}): {_summarize(homes)}.',
            hint=f"Delete them with: stoker workspace delete {homes[0]}, or {release}",
        )


def _summarize(names: list[str]) -> str:
    more = len(names) - MAX_LISTED_NAMES
    return ", ".join(names[:MAX_LISTED_NAMES]) + (f" and {more} more" if more > 0 else "")
