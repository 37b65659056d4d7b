"""What runs survives the server and dockerd; what is lost is told; after every gap everything is reported again."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.engines.docker.daemon import DockerDaemon
from tests.engines.docker.harness import DockerHarness

from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.workload.phase import PodPhase
from stoker.engines.docker import DockerConfig, DockerEngine, TlsConfig
from stoker.engines.model import Disconnected, FullSync


def test_a_new_engine_adopts_what_runs_and_what_has_ended(harness: DockerHarness) -> None:
    spec = harness.launch("sleep 600", replicas=2)
    done = harness.pod("exit 4")
    for pod in spec.pods:
        harness.running(pod.uid)
    before = harness.end(done)
    harness.kill_engine()
    harness.open()
    again = harness.end(done)
    assert again == before
    for pod in spec.pods:
        assert harness.running(pod.uid).attempt == 1
    harness.run(harness.engine.apply(spec))
    assert len(harness.containers()) == 3


def test_a_pod_that_ends_while_no_engine_runs_is_reported_by_the_next(harness: DockerHarness) -> None:
    uid = harness.pod("echo one; sleep 0.5; echo two; exit 7")
    harness.running(uid)
    harness.kill_engine()
    time.sleep(1.0)
    assert harness.end(uid).exit_code == 7
    assert harness.lines(uid) == ["one", "two"]


def test_the_end_of_a_pod_is_known_within_a_second(harness: DockerHarness) -> None:
    uid = harness.pod("sleep 0.5")
    ended = harness.end(uid)
    assert ended.ended_at is not None
    assert time.time() * 1000 - ended.ended_at < 1000


def test_contact_that_is_lost_is_told_once_and_followed_by_a_full_sync(
    harness: DockerHarness, docker_daemon: DockerDaemon
) -> None:
    uid = harness.pod("sleep 600")
    service = harness.pod("sleep 600", restart=True)
    harness.running(uid)
    harness.running(service)
    harness.reports.clear()
    docker_daemon.kill()
    harness.wait(lambda: any(isinstance(report, Disconnected) for report in harness.reports))
    with pytest.raises(StokerError) as caught:
        harness.launch("true")
    assert caught.value.code is ErrorCode.UNAVAILABLE
    assert harness.lines(uid) == []
    docker_daemon.start()
    harness.wait(lambda: any(isinstance(report, FullSync) for report in harness.reports))
    kinds = [type(report) for report in harness.reports]
    assert kinds.count(Disconnected) == 1
    assert kinds.index(Disconnected) < kinds.index(FullSync)
    lost = harness.end(uid)
    assert (lost.phase, lost.exit_code) == (PodPhase.LOST, None), "dockerd ends containers when it starts again"
    assert "Docker has ended it" in lost.message
    assert harness.end(service).phase is PodPhase.LOST
    assert harness.end(harness.pod("exit 5")).exit_code == 5, "it goes on as before"


def test_a_pod_that_ends_by_itself_while_dockerd_is_down_keeps_its_exit_code(
    harness: DockerHarness, docker_daemon: DockerDaemon
) -> None:
    docker_daemon.live_restore = True
    docker_daemon.stop()
    docker_daemon.start()
    try:
        survivor = harness.pod("sleep 600")
        ends = harness.pod("sleep 1; exit 3")
        harness.running(survivor)
        harness.running(ends)
        docker_daemon.kill()
        time.sleep(1.5)
        docker_daemon.start()
        assert harness.end(ends).exit_code == 3
        assert harness.running(survivor).exit_code is None
    finally:
        docker_daemon.live_restore = False
        docker_daemon.stop()
        docker_daemon.start()


def test_a_pod_whose_dockerd_is_stopped_is_lost(harness: DockerHarness, docker_daemon: DockerDaemon) -> None:
    uid = harness.pod("sleep 600")
    harness.running(uid)
    docker_daemon.stop()
    docker_daemon.start()
    assert harness.end(uid).phase is PodPhase.LOST


@pytest.mark.parametrize("end", [DockerDaemon.stop, DockerDaemon.kill], ids=["stop", "kill"])
def test_a_pod_whose_dockerd_ends_while_no_server_runs_is_lost(
    harness: DockerHarness, docker_daemon: DockerDaemon, end: Callable[[DockerDaemon], None]
) -> None:
    lost = harness.pod("sleep 600")
    harness.running(lost)
    harness.kill_engine()
    end(docker_daemon)
    docker_daemon.start()
    assert (harness.end(lost).phase, harness.end(lost).exit_code) == (PodPhase.LOST, None)
    failed = harness.pod("sleep 1; exit 255")
    harness.running(failed)
    harness.kill_engine()
    time.sleep(1.5)
    assert (harness.end(failed).phase, harness.end(failed).exit_code) == (PodPhase.FAILED, 255)
    assert harness.end(lost).phase is PodPhase.LOST


def test_a_dockerd_that_hangs_is_noticed(
    harness: DockerHarness, docker_daemon: DockerDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoker.engines.docker.watch.PING_SECONDS", 0.2)
    harness.open()
    harness.wait(lambda: bool(harness.reports))
    docker_daemon.freeze()
    try:
        harness.wait(lambda: isinstance(harness.reports[-1], Disconnected))
    finally:
        docker_daemon.freeze(frozen=False)
    harness.wait(lambda: isinstance(harness.reports[-1], FullSync))


def test_an_engine_without_a_daemon_opens_at_once_and_says_what_is_wrong(tmp_path: Path) -> None:
    harness = DockerHarness(_Absent(tmp_path / "nothing.sock"), tmp_path / "state")  # type: ignore[arg-type]
    started = time.monotonic()
    harness.open()
    assert time.monotonic() - started < 0.5
    harness.wait(lambda: bool(harness.reports))
    (lost,) = harness.reports
    assert isinstance(lost, Disconnected)
    assert "cannot be reached" in lost.message
    with pytest.raises(StokerError, match="cannot be reached") as caught:
        harness.run(harness.engine.check())
    assert "group docker" in caught.value.hint
    harness.dispose()


@pytest.mark.parametrize("tls", [None, TlsConfig()])
def test_a_tcp_port_that_nobody_listens_on_is_named(tmp_path: Path, tls: TlsConfig | None) -> None:
    async def main() -> None:
        config = DockerConfig(url="tcp://127.0.0.1:9", tls=tls)
        engine = DockerEngine(config, installation="i", cluster_id="c", state_dir=tmp_path)
        try:
            with pytest.raises(StokerError, match=r"tcp://127\.0\.0\.1:9 cannot be reached"):
                await engine.check()
        finally:
            await engine.close()

    harness = DockerHarness(_Absent(tmp_path), tmp_path)  # type: ignore[arg-type]
    harness.run(main())
    harness.dispose()


class _Absent:
    def __init__(self, socket: Path) -> None:
        self.url = f"unix://{socket}"
