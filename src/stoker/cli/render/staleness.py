"""What a person has to know before believing a reading: that it is old, or that the cluster is simulated."""

from typing import TYPE_CHECKING

import click

from stoker.cli.amounts import age
from stoker.cli.output import printable

if TYPE_CHECKING:
    from stoker.client import Stoker
    from stoker.client.fleet_shapes import ClusterOverview, Overview


def warn(overview: "Overview") -> None:
    """Say of each cluster what is not as it seems."""
    for line in warnings(overview):
        click.echo(line, err=True)


def warnings(overview: "Overview") -> list[str]:
    found = []
    for cluster in overview.clusters:
        name, source = printable(cluster.name), cluster.source
        if cluster.simulated:
            found.append(f"Cluster {name} is simulated.")
        if source.stale:
            why = f": {printable(source.message)}" if source.message else "."
            old = "have never been read" if source.age_seconds is None else f"are {age(source.age_seconds)} old"
            found.append(f"The readings of cluster {name} {old}{why}")
    return found


def label(cluster: "ClusterOverview") -> str:
    return f"{printable(cluster.name)} (simulated)" if cluster.simulated else printable(cluster.name)


def readings(cluster: "ClusterOverview") -> str:
    """Where the readings come from, and how old they are."""
    source = cluster.source
    if source.age_seconds is None:
        return "none yet"
    return f"{printable(source.name)}, {'STALE, ' if source.stale else ''}{age(source.age_seconds)} ago"


def looked(client: "Stoker", cluster: str) -> "Overview":
    """The overview, with its warnings said."""
    overview = client.fleet.overview(cluster=cluster)
    warn(overview)
    return overview
