"""Clusters in the database: their settings, their credential, and since when they cannot be reached."""

import pytest
from msgspec import structs
from tests.conftest import LoopRun

from stoker.domain.access.identity import Cluster
from stoker.domain.cluster.capabilities import DOCKER_CAPABILITIES, SIMULATED_CAPABILITIES
from stoker.domain.cluster.policy import ClusterPolicy
from stoker.store.cluster import clusters
from stoker.store.db.base import Store

CLUSTER = Cluster(
    "c",
    "lab",
    "docker",
    "The lab.",
    created_at=5,
    updated_at=5,
    config='{"url":"unix:///run/docker.sock","default_image":"base:1"}',
    capabilities=DOCKER_CAPABILITIES,
    has_credential=True,
)


@pytest.fixture
def lab(store: Store, loop_run: LoopRun) -> Store:
    loop_run(store.write(lambda tx: clusters.add(tx, CLUSTER, "sealed")))
    return store


def read(store: Store, loop_run: LoopRun) -> Cluster:
    return loop_run(store.read(lambda tx: clusters.get(tx, "lab")))


def test_a_cluster_is_read_as_it_was_written(lab: Store, loop_run: LoopRun) -> None:
    assert read(lab, loop_run) == CLUSTER
    assert read(lab, loop_run).policy == ClusterPolicy(default_image="base:1")


def test_whether_it_is_simulated_follows_from_its_capabilities() -> None:
    assert not CLUSTER.is_simulated
    assert structs.replace(CLUSTER, capabilities=SIMULATED_CAPABILITIES).is_simulated


def test_the_credential_is_read_only_on_request(lab: Store, loop_run: LoopRun) -> None:
    assert "sealed" not in repr(read(lab, loop_run))
    assert loop_run(lab.read(lambda tx: clusters.read_credential(tx, "c"))) == "sealed"
    loop_run(lab.write(lambda tx: clusters.set_credential(tx, "c", "other")))
    assert loop_run(lab.read(lambda tx: clusters.read_credential(tx, "c"))) == "other"
    assert read(lab, loop_run).version == 2


def test_the_time_of_the_first_failure_stays_and_the_reason_is_the_latest(lab: Store, loop_run: LoopRun) -> None:
    loop_run(lab.write(lambda tx: clusters.set_unreachable(tx, "c", 100, "no route")))
    loop_run(lab.write(lambda tx: clusters.set_unreachable(tx, "c", 200, "refused")))
    found = read(lab, loop_run)
    assert (found.unreachable_since, found.unreachable_message, found.version) == (100, "refused", 1)
    loop_run(lab.write(lambda tx: clusters.set_reachable(tx, "c")))
    assert read(lab, loop_run) == CLUSTER


def test_an_update_changes_settings_and_the_version(lab: Store, loop_run: LoopRun) -> None:
    edited = structs.replace(CLUSTER, description="New.", config="{}", updated_at=9)
    loop_run(lab.write(lambda tx: clusters.update(tx, edited)))
    assert read(lab, loop_run) == structs.replace(edited, version=2)
