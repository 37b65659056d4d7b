"""Every service, built together over one context."""

from msgspec import Struct

from stoker.domain.clock import Clock
from stoker.domain.reach import Reach
from stoker.domain.series import Series
from stoker.domain.settings import Settings
from stoker.domain.webhook_targets import Resolve
from stoker.services.applications import Applications
from stoker.services.authentication import Authentication
from stoker.services.clusters import Clusters
from stoker.services.consumption import Consumption
from stoker.services.context import Context
from stoker.services.departments import Departments
from stoker.services.events import Events
from stoker.services.explain import Explain
from stoker.services.health import Health
from stoker.services.inside import Inside
from stoker.services.inventory import Inventory
from stoker.services.keys import Keys
from stoker.services.live import Live
from stoker.services.logs import Logs
from stoker.services.measurements import Measurements
from stoker.services.monitoring import Monitoring
from stoker.services.node_totals import NodeTotals
from stoker.services.passwords import Passwords
from stoker.services.pods import Pods
from stoker.services.reports import Reports
from stoker.services.summary import Summary
from stoker.services.totals import Totals
from stoker.services.trail import Trail
from stoker.services.training import Training
from stoker.services.usage import Usage
from stoker.services.users import Users
from stoker.services.waste import Waste
from stoker.services.webhooks import Webhooks
from stoker.services.workloads import Workloads
from stoker.services.workspaces import Workspaces


class Services(Struct, frozen=True):
    settings: Settings
    clock: Clock
    authentication: Authentication
    users: Users
    departments: Departments
    workspaces: Workspaces
    keys: Keys
    applications: Applications
    clusters: Clusters
    health: Health
    trail: Trail
    workloads: Workloads
    pods: Pods
    logs: Logs
    inside: Inside
    inventory: Inventory
    consumption: Consumption
    events: Events
    explain: Explain
    monitoring: Monitoring
    live: Live
    node_totals: NodeTotals
    summary: Summary
    totals: Totals
    training: Training
    measurements: Measurements
    usage: Usage
    reports: Reports
    waste: Waste
    webhooks: Webhooks


def build_services(context: Context, reach: Reach, series: Series, resolve: Resolve) -> Services:
    passwords = Passwords()
    training = Training(context)
    live = Live(context)
    return Services(
        settings=context.settings,
        clock=context.clock,
        authentication=Authentication(context, passwords),
        users=Users(context, passwords),
        departments=Departments(context),
        workspaces=Workspaces(context),
        keys=Keys(context),
        applications=Applications(context),
        clusters=Clusters(context),
        health=Health(context),
        trail=Trail(context),
        workloads=Workloads(context),
        pods=Pods(context),
        logs=Logs(context, reach),
        inside=Inside(context, reach),
        inventory=Inventory(context),
        consumption=Consumption(context, series),
        events=Events(context),
        explain=Explain(context),
        monitoring=Monitoring(context),
        live=live,
        node_totals=NodeTotals(context, live),
        summary=Summary(context),
        totals=Totals(context),
        training=training,
        measurements=Measurements(context, series, training),
        usage=Usage(context),
        reports=Reports(context),
        waste=Waste(context, live),
        webhooks=Webhooks(context, resolve),
    )
