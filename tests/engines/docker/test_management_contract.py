"""Behaviours of the management API on a real dockerd: how workloads end, their pods, their logs and how they stop.

The tests are those of the local engine. Left out are the ones that need a second node, files of the local engine, or
programs that the image does not have.
"""

from collections.abc import Iterator

import pytest
from tests.contract.management.harness import WAIT
from tests.contract.management.test_lifecycle import (
    test_a_failure_is_retried_as_often_as_was_asked_for,
    test_a_gang_starts_as_a_whole_or_not_at_all,
    test_a_gang_succeeds_when_all_have,
    test_a_job_that_exits_well_has_succeeded,
    test_a_job_that_fails_says_with_which_code,
    test_a_timeout_stops_it_once_and_it_is_not_retried,
    test_devices_and_ranks_are_stokers_and_the_rest_is_the_users,
    test_one_failing_pod_fails_the_gang_and_ends_the_others,
    test_pods_have_the_names_of_their_kind,
    test_when_the_retries_are_spent_it_has_failed,
    test_without_gpus_no_device_is_visible,
)
from tests.contract.management.test_logs import (
    counted,
    test_a_follower_that_leaves_leaves_nothing_behind,
    test_a_log_that_is_over_is_followed_to_its_end,
    test_a_pod_that_has_a_place_and_has_not_begun_has_printed_nothing,
    test_as_many_lines_as_asked_for_are_given,
    test_carriage_returns_do_not_break_an_event,
    test_each_attempt_has_its_own_lines,
    test_each_line_can_begin_with_its_time,
    test_grep_keeps_lines_that_hold_a_text,
    test_lines_come_out_as_they_went_in,
    test_only_lines_of_the_last_seconds_are_given,
    test_only_matching_lines_are_followed,
    test_the_last_thousand_lines_are_given,
    test_the_main_container_may_be_named,
    test_the_pod_must_belong_to_the_workload,
    test_what_goes_to_either_output_is_there_in_order,
)
from tests.contract.management.test_pod_access import test_the_shells_are_those_that_exist
from tests.contract.management.test_stop_and_delete import (
    test_what_ignores_the_signal_is_killed_after_the_grace_period,
    test_what_is_being_stopped_still_shows_as_running_and_is_stopped_once,
    test_what_runs_gets_a_signal_and_is_stopped_however_it_exits,
)
from tests.engines.docker.daemon import DockerDaemon
from tests.engines.docker.server import DockerServer

__all__ = [
    "counted",
    "test_a_failure_is_retried_as_often_as_was_asked_for",
    "test_a_follower_that_leaves_leaves_nothing_behind",
    "test_a_gang_starts_as_a_whole_or_not_at_all",
    "test_a_gang_succeeds_when_all_have",
    "test_a_job_that_exits_well_has_succeeded",
    "test_a_job_that_fails_says_with_which_code",
    "test_a_log_that_is_over_is_followed_to_its_end",
    "test_a_pod_that_has_a_place_and_has_not_begun_has_printed_nothing",
    "test_a_timeout_stops_it_once_and_it_is_not_retried",
    "test_as_many_lines_as_asked_for_are_given",
    "test_carriage_returns_do_not_break_an_event",
    "test_devices_and_ranks_are_stokers_and_the_rest_is_the_users",
    "test_each_attempt_has_its_own_lines",
    "test_each_line_can_begin_with_its_time",
    "test_grep_keeps_lines_that_hold_a_text",
    "test_lines_come_out_as_they_went_in",
    "test_one_failing_pod_fails_the_gang_and_ends_the_others",
    "test_only_lines_of_the_last_seconds_are_given",
    "test_only_matching_lines_are_followed",
    "test_pods_have_the_names_of_their_kind",
    "test_the_last_thousand_lines_are_given",
    "test_the_main_container_may_be_named",
    "test_the_pod_must_belong_to_the_workload",
    "test_the_shells_are_those_that_exist",
    "test_what_goes_to_either_output_is_there_in_order",
    "test_what_ignores_the_signal_is_killed_after_the_grace_period",
    "test_what_is_being_stopped_still_shows_as_running_and_is_stopped_once",
    "test_what_runs_gets_a_signal_and_is_stopped_however_it_exits",
    "test_when_the_retries_are_spent_it_has_failed",
    "test_without_gpus_no_device_is_visible",
]


@pytest.fixture(scope="module")
def works(docker_daemon: DockerDaemon, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerServer]:
    with DockerServer(docker_daemon, tmp_path_factory.mktemp("server") / "data") as opened:
        yield opened


@pytest.fixture(scope="module")
def talking(works: DockerServer) -> Iterator[str]:
    """Prints, and goes on running. Docker reads the two outputs at its own pace, so stderr comes a moment later."""
    told = "echo Loss: 0.5; echo 'loss 0.4'; echo accuracy 9%; echo a_b; sleep 0.2; >&2 echo to stderr"
    ref = works.submit(run=f"{told}; {WAIT}")
    works.prints(ref, "stderr")
    yield ref
    works.stop(ref)
