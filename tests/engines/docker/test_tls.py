"""A daemon on TCP is reached with certificates, and says what is wrong with them."""

import pytest
from tests.engines.docker.daemon import DockerDaemon
from tests.engines.docker.harness import DockerHarness
from tests.engines.docker.test_terminal import read_all, read_until

from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.workload.spec import Kind, Service
from stoker.engines.docker import TlsConfig


def client_tls(daemon: DockerDaemon, *, as_text: bool = False) -> TlsConfig:
    folder = daemon.certificates / "client"
    paths = [folder / name for name in ("ca.pem", "cert.pem", "key.pem")]
    return TlsConfig(*(path.read_text() if as_text else str(path) for path in paths))


@pytest.mark.parametrize("as_text", [True, False])
def test_pods_run_over_tls(harness: DockerHarness, docker_daemon: DockerDaemon, as_text: bool) -> None:
    harness.open(url=docker_daemon.tls_url, tls=client_tls(docker_daemon, as_text=as_text))
    uid = harness.pod("echo over tls; exit 2")
    assert harness.end(uid).exit_code == 2
    assert harness.lines(uid) == ["over tls"]


def test_a_command_over_tls_reads_the_end_of_its_input(harness: DockerHarness, docker_daemon: DockerDaemon) -> None:
    harness.open(url=docker_daemon.tls_url, tls=client_tls(docker_daemon))
    uid = harness.pod("sleep 600")
    harness.running(uid)

    async def main() -> tuple[bytes, int]:
        command = ["sh", "-c", "cat; echo end; exit 4"]
        terminal = await harness.engine.execute(uid, command, tty=False, columns=0, rows=0)
        await terminal.write(b"hello\n" * 50_000)
        await terminal.close_stdin()
        output = await read_all(terminal)
        code = await terminal.exit_code()
        await terminal.close()
        return output, code

    assert harness.run(main()) == (b"hello\n" * 50_000 + b"end\n", 4)


def test_a_terminal_over_tls(harness: DockerHarness, docker_daemon: DockerDaemon) -> None:
    harness.open(url=docker_daemon.tls_url, tls=client_tls(docker_daemon))
    uid = harness.pod("sleep 600")
    harness.running(uid)

    async def main() -> int:
        terminal = await harness.engine.execute(uid, ["sh"], tty=True, columns=90, rows=20)
        await terminal.write(b"stty size\n")
        await read_until(terminal, b"20 90")
        await terminal.write(b"exit 6\n")
        await read_all(terminal)
        code = await terminal.exit_code()
        await terminal.close()
        return code

    assert harness.run(main()) == 6


def test_a_service_of_a_remote_host_is_reached_at_its_address(
    harness: DockerHarness, docker_daemon: DockerDaemon
) -> None:
    harness.open(url=docker_daemon.tls_url, tls=client_tls(docker_daemon))
    spec = harness.launch(
        "while :; do echo hi | nc -l -p $PORT >/dev/null; done",
        kind=Kind.DEPLOYMENT,
        service=Service(18_090, 8000),
        rolling=True,
        restart=True,
    )
    harness.until(spec.pods[0].uid, lambda pod: pod.ready)
    container = harness.run(harness.engine.client.inspect(harness.seen[spec.pods[0].uid].engine_uid))
    assert container is not None
    bindings = (container.network_settings.ports or {})["8000/tcp"] or []
    assert bindings[0].host_ip == "0.0.0.0"  # noqa: S104 - a remote host has to be reached


def test_certificates_that_do_not_fit_are_explained(harness: DockerHarness, docker_daemon: DockerDaemon) -> None:
    good = client_tls(docker_daemon)
    harness.open(url=docker_daemon.tls_url, tls=TlsConfig("", good.certificate, good.key))
    with pytest.raises(StokerError, match=r"TLS with the Docker daemon at .* has failed") as caught:
        harness.run(harness.engine.check())
    assert caught.value.code is ErrorCode.UNAVAILABLE
    assert "ca.pem" in caught.value.hint
    harness.open(tls=TlsConfig(good.ca))
    with pytest.raises(StokerError, match="Docker daemon at") as caught:
        harness.run(harness.engine.check())
    assert caught.value.code is ErrorCode.UNAVAILABLE
    harness.open(tls=TlsConfig("/nowhere/ca.pem", good.certificate, good.key))
    with pytest.raises(StokerError, match="certificates for the Docker daemon cannot be used"):
        harness.run(harness.engine.check())
    harness.open(tls=good)
