"""A job talks to the server from loopback, and is not let in as the machine itself is."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.integration.live_server import LiveClient, LiveServer, until

OVERVIEW = "/api/clusters/overview"
ASK = """
import os, socket, sys, time, urllib.error, urllib.request

def ask():
    try:
        return urllib.request.urlopen(sys.argv[1], timeout=20).status
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()

def orphan():
    "The answer to a process that has left its session and its parent, as a daemon does."
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(0.5)
            os.write(writer, repr(ask()).encode())
        os._exit(0)
    os.close(writer)
    os.wait()
    return os.read(reader, 4096).decode()

def mapped():
    "The same from a socket of IPv6 that speaks IPv4."
    host, port = sys.argv[1].split("/")[2].split(":")
    with socket.create_connection((f"::ffff:{host}", int(port))) as channel:
        channel.sendall(f"GET {'/' + sys.argv[1].split('/', 3)[3]} HTTP/1.0\\r\\nHost: {host}\\r\\n\\r\\n".encode())
        return channel.recv(4096).decode()

print(ask(), flush=True)
print(orphan(), flush=True)
print(mapped().replace("\\r\\n", " "), flush=True)
time.sleep(float(sys.argv[2]))
"""


def script(server: LiveServer, seconds: float) -> str:
    return f"exec {sys.executable} - {server.address}{OVERVIEW} {seconds} << 'END'\n{ASK}\nEND\n"


@pytest.fixture(params=["namespaces", "subreaper"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LiveServer]:
    options = ("--containment", request.param, "--local-trust", "shared")
    with LiveServer(tmp_path / "data", options=options) as made:
        yield made.start()


@pytest.fixture
def client(server: LiveServer) -> Iterator[LiveClient]:
    with contextlib.closing(server.client()) as made:
        yield made


def asks(client: LiveClient, name: str) -> list[str]:
    return until(lambda: client.lines(name), lambda lines: len(lines) == 3)


def test_a_job_needs_a_credential_and_the_machine_itself_does_not(server: LiveServer, client: LiveClient) -> None:
    assert httpx.get(server.address + OVERVIEW).status_code == 200
    name = client.create(script(server, 600))
    client.until(name, lambda found: found["phase"] == "Running")
    direct, orphan, mapped = asks(client, name)
    for answer in (direct, orphan):
        assert answer.startswith("(401,")
        assert "it comes from a job" in answer
    assert mapped.startswith("HTTP/1.1 401")
    with httpx.Client(base_url=server.address) as own:
        assert [own.get(OVERVIEW).status_code for _ in range(2)] == [200, 200]
    other = f"import urllib.request as r; print(r.urlopen('{server.address}{OVERVIEW}').status)"
    assert subprocess.run([sys.executable, "-c", other], capture_output=True, text=True, check=True).stdout == "200\n"


def test_a_job_that_a_new_server_has_adopted_is_still_a_job(
    server: LiveServer, client: LiveClient, shared_folder: Path
) -> None:
    told = shared_folder / "address"
    asking = f"exec {sys.executable} - $(cat {told}){OVERVIEW} 0 << 'END'\n{ASK}\nEND\n"
    name = client.create(f"while ! test -s {told}; do sleep 0.1; done\n{asking}")
    client.until(name, lambda found: found["phase"] == "Running")
    server.stop()
    server.start()
    (shared_folder / "draft").write_text(server.address)
    (shared_folder / "draft").chmod(0o644)
    (shared_folder / "draft").rename(told)
    client.end(name)
    assert asks(client, name)[0].startswith("(401,")


def test_a_command_that_is_run_in_a_pod_is_the_pods(server: LiveServer, client: LiveClient) -> None:
    name = client.create("sleep 600")
    client.until(name, lambda found: found["phase"] == "Running")
    stoker = [sys.executable, str(Path(sys.executable).with_name("stoker"))]
    inside = f"import urllib.request as r; r.urlopen('{server.address}{OVERVIEW}')"
    done = subprocess.run(
        [
            *stoker,
            "--server",
            f"unix://{server.data_dir}/stoker.sock",
            "exec",
            "-n",
            name,
            "--",
            sys.executable,
            "-c",
            inside,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "401" in done.stdout + done.stderr
