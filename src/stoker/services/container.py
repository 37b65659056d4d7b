"""The container of all services, built once over one context."""

from msgspec import Struct

from stoker.domain.clock import Clock
from stoker.domain.cluster.engine_access import EngineAccess
from stoker.domain.cluster.engine_catalog import EngineCatalog
from stoker.domain.metrics.series import RangeBackend
from stoker.domain.settings.schema import Settings
from stoker.domain.webhooks.targets import ResolveHost
from stoker.services.audit import AuditLog
from stoker.services.context import Context
from stoker.services.fleet.clusters import ClusterService
from stoker.services.fleet.fleet_workloads import FleetWorkloadService
from stoker.services.fleet.live import LiveViewReader
from stoker.services.fleet.node_aggregates import NodeAggregates
from stoker.services.fleet.queue_aggregates import QueueAggregates
from stoker.services.fleet.visible_fleet import VisibleFleet
from stoker.services.fleet.workload_aggregates import WorkloadAggregates
from stoker.services.health import HealthService
from stoker.services.identity.api_keys import ApiKeyService
from stoker.services.identity.applications import ApplicationService
from stoker.services.identity.authentication import AuthenticationService
from stoker.services.identity.departments import DepartmentService
from stoker.services.identity.login import LoginService
from stoker.services.identity.passwords import Passwords
from stoker.services.identity.tokens import TokenService
from stoker.services.identity.users import UserService
from stoker.services.identity.workspaces import WorkspaceService
from stoker.services.metrics.gpu_series import GpuSeriesService
from stoker.services.metrics.training import TrainingService
from stoker.services.metrics.workload_metrics import WorkloadMetrics
from stoker.services.usage.hours import UsageService
from stoker.services.usage.reports import UsageReportService
from stoker.services.usage.waste import WasteService
from stoker.services.webhooks import WebhookService
from stoker.services.workloads.admission import Admission
from stoker.services.workloads.capacity_cache import CapacityCache
from stoker.services.workloads.commands import WorkloadCommands
from stoker.services.workloads.events import EventStream
from stoker.services.workloads.explain import ExplainService
from stoker.services.workloads.logs import LogService
from stoker.services.workloads.plan_cache import ClusterPlanCache
from stoker.services.workloads.pod_access import PodAccess
from stoker.services.workloads.pods import PodService
from stoker.services.workloads.queries import WorkloadQueries
from stoker.services.workloads.search import WorkloadSearch
from stoker.services.workloads.updates import WorkloadUpdates


class ServiceContainer(Struct, frozen=True):
    settings: Settings
    clock: Clock
    authentication: AuthenticationService
    login: LoginService
    tokens: TokenService
    users: UserService
    departments: DepartmentService
    workspaces: WorkspaceService
    api_keys: ApiKeyService
    applications: ApplicationService
    clusters: ClusterService
    health: HealthService
    audit_log: AuditLog
    workloads: WorkloadCommands
    workload_updates: WorkloadUpdates
    workload_queries: WorkloadQueries
    pods: PodService
    logs: LogService
    pod_access: PodAccess
    workload_search: WorkloadSearch
    workload_metrics: WorkloadMetrics
    events: EventStream
    explain: ExplainService
    fleet_workloads: FleetWorkloadService
    live: LiveViewReader
    visible_fleet: VisibleFleet
    node_aggregates: NodeAggregates
    workload_aggregates: WorkloadAggregates
    queue_aggregates: QueueAggregates
    training: TrainingService
    gpu_series: GpuSeriesService
    usage: UsageService
    usage_reports: UsageReportService
    waste: WasteService
    webhooks: WebhookService


def build_services(
    context: Context,
    engine_access: EngineAccess,
    engine_catalog: EngineCatalog,
    series: RangeBackend,
    resolve: ResolveHost,
) -> ServiceContainer:
    passwords = Passwords()
    training = TrainingService(context)
    live = LiveViewReader(context)
    plans = ClusterPlanCache(context)
    capacity_cache = CapacityCache()
    admission = Admission(context, capacity_cache)
    return ServiceContainer(
        settings=context.settings,
        clock=context.clock,
        authentication=AuthenticationService(context),
        login=LoginService(context, passwords),
        tokens=TokenService(context),
        users=UserService(context, passwords),
        departments=DepartmentService(context),
        workspaces=WorkspaceService(context),
        api_keys=ApiKeyService(context),
        applications=ApplicationService(context),
        clusters=ClusterService(context, engine_catalog),
        health=HealthService(context),
        audit_log=AuditLog(context),
        workloads=WorkloadCommands(context, admission, capacity_cache),
        workload_updates=WorkloadUpdates(context, capacity_cache, plans),
        workload_queries=WorkloadQueries(context, admission),
        pods=PodService(context),
        logs=LogService(context, engine_access),
        pod_access=PodAccess(context, engine_access),
        workload_search=WorkloadSearch(context),
        workload_metrics=WorkloadMetrics(context, series),
        events=EventStream(context),
        explain=ExplainService(context, plans),
        fleet_workloads=FleetWorkloadService(context),
        live=live,
        visible_fleet=VisibleFleet(context, live),
        node_aggregates=NodeAggregates(context, live),
        workload_aggregates=WorkloadAggregates(context),
        queue_aggregates=QueueAggregates(context),
        training=training,
        gpu_series=GpuSeriesService(context, series, training),
        usage=UsageService(context),
        usage_reports=UsageReportService(context),
        waste=WasteService(context, live),
        webhooks=WebhookService(context, resolve),
    )
