"""Behaviours of the management API on a real dockerd: services, and changes of what runs.

The tests are those of the local engine, with an HTTP server that the image has.
"""

from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest
from tests.contract.management import test_patch_running, test_pod_access, test_rollout
from tests.contract.management.harness import WAIT, encoded
from tests.contract.management.test_patch_running import (
    test_a_deployment_is_replaced_pod_by_pod_and_is_never_down,
    test_a_gang_that_runs_is_begun_again_without_spending_a_retry,
    test_changes_in_quick_succession_end_with_the_last_one,
    test_the_number_of_replicas_grows_and_shrinks_around_those_that_stay,
    test_words_of_what_runs_are_changed_in_place,
)
from tests.contract.management.test_pod_access import (
    test_a_port_is_given_only_with_a_service_and_the_users_own_wins,
    test_a_request_goes_through_the_service_to_the_replica,
    test_a_service_goes_on_with_the_replicas_that_are_up,
    test_two_services_on_one_port_both_answer,
)
from tests.contract.management.test_rollout import (
    test_a_revision_that_is_not_ready_in_time_is_rolled_back_and_no_replica_was_lost,
    test_a_rollback_in_the_middle_keeps_the_replicas_that_were_there,
)
from tests.engines.docker.daemon import DockerDaemon
from tests.engines.docker.server import HTTP_SERVER, OTHER_IMAGE, DockerServer

__all__ = [
    "test_a_deployment_is_replaced_pod_by_pod_and_is_never_down",
    "test_a_gang_that_runs_is_begun_again_without_spending_a_retry",
    "test_a_port_is_given_only_with_a_service_and_the_users_own_wins",
    "test_a_request_goes_through_the_service_to_the_replica",
    "test_a_revision_that_is_not_ready_in_time_is_rolled_back_and_no_replica_was_lost",
    "test_a_rollback_in_the_middle_keeps_the_replicas_that_were_there",
    "test_a_service_goes_on_with_the_replicas_that_are_up",
    "test_changes_in_quick_succession_end_with_the_last_one",
    "test_the_number_of_replicas_grows_and_shrinks_around_those_that_stay",
    "test_two_services_on_one_port_both_answer",
    "test_words_of_what_runs_are_changed_in_place",
]


@pytest.fixture(scope="module")
def works(docker_daemon: DockerDaemon, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerServer]:
    with (
        mock.patch.object(test_pod_access, "SERVER", HTTP_SERVER),
        mock.patch.object(test_rollout, "ANSWERS", HTTP_SERVER),
        DockerServer(docker_daemon, tmp_path_factory.mktemp("server") / "data") as opened,
    ):
        yield opened


@pytest.mark.parametrize(
    "fields",
    [
        {"image": OTHER_IMAGE},
        {"entryPoint": encoded(f"echo v=new; {WAIT}")},
        {"cpu": "200m"},
        {"gpu": "2"},
        {"memory": "512Mi"},
        {"replica": 2},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_each_field_replaces_the_containers(works: DockerServer, fields: dict[str, Any]) -> None:
    test_patch_running.test_each_field_of_what_runs_replaces_its_pods(works, fields)
