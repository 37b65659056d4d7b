"""Warnings about stale samples and simulated clusters."""

from typing import TYPE_CHECKING

import click

from stoker.cli.render.format import format_age
from stoker.cli.render.output import sanitize_line

if TYPE_CHECKING:
    from stoker.client import Stoker
    from stoker.wire.fleet import ClusterOverview, OverviewView


def print_staleness(overview: "OverviewView") -> None:
    """Print a warning for each cluster with stale samples or simulated data."""
    for line in staleness_warnings(overview):
        click.echo(line, err=True)


def staleness_warnings(overview: "OverviewView") -> list[str]:
    found = []
    for cluster in overview.clusters:
        name, source = sanitize_line(cluster.name), cluster.source
        if cluster.unreachable_since is not None:
            why = sanitize_line(cluster.unreachable_message)
            found.append(f"Cluster {name} cannot be reached since {cluster.unreachable_since}: {why}")
        if cluster.simulated:
            found.append(f"Cluster {name} is simulated.")
        if source.stale:
            why = f": {sanitize_line(source.message)}" if source.message else "."
            old = "have never been read" if source.age_seconds is None else f"are {format_age(source.age_seconds)} old"
            found.append(f"The readings of cluster {name} {old}{why}")
    return found


def cluster_label(cluster: "ClusterOverview") -> str:
    return f"{sanitize_line(cluster.name)} (simulated)" if cluster.simulated else sanitize_line(cluster.name)


def collector_status(cluster: "ClusterOverview") -> str:
    """The collector and the age of the samples."""
    source = cluster.source
    if source.age_seconds is None:
        return "none yet"
    return f"{sanitize_line(source.name)}, {'STALE, ' if source.stale else ''}{format_age(source.age_seconds)} ago"


def fetch_overview(client: "Stoker", cluster: str) -> "OverviewView":
    """The overview; its warnings are printed."""
    overview = client.fleet.overview(cluster=cluster)
    print_staleness(overview)
    return overview
