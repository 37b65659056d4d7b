"""The request body of a submission, and how the end of a job determines the exit code."""

import base64
import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.unit.cli.conftest import RunStoker
from tests.unit.cli.fake_server import (
    MANAGEMENT_PATH,
    FakeServer,
    counted,
    detail,
    log_events,
    management_problem,
    workload,
)

from stoker.api.compat.management.schemas import CreateWorkload
from stoker.api.http.bodies import BodyDecoder
from stoker.cli.core.exit_status import job_exit_code
from stoker.cli.input.display_name import derive_display_name
from stoker.cli.input.job_spec import start_in_directory, to_script
from stoker.wire.management import WorkloadDetailView

NAME = "python-b2c4d"
CREATED = (200, {"workloadId": NAME})


@pytest.fixture(autouse=True)
def _poll_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stoker.client.follow.POLL_SECONDS_WITHOUT_EVENTS", 0.01)


def ending(phase: str, message: str = "", lines: tuple[str, ...] = ("hi",)) -> FakeServer:
    """A server on which whatever is submitted ends like this."""
    return FakeServer(
        {
            f"POST {MANAGEMENT_PATH}": CREATED,
            f"GET {MANAGEMENT_PATH}/{NAME}": [
                (200, detail(NAME, "Pending")),
                (200, detail(NAME, phase, message=message)),
            ],
            f"GET {MANAGEMENT_PATH}/{NAME}/pods/{NAME}-0/logs": (200, log_events(*lines)),
        }
    )


def sent(server: FakeServer) -> dict[str, Any]:
    body = json.loads(server.asked_for("POST", MANAGEMENT_PATH)[0].content)
    return {**body, "entryPoint": base64.b64decode(body["entryPoint"]).decode()}


def here(script: str) -> str:
    """The script that begins in the present directory, or fails loudly."""
    place = shlex.quote(str(Path.cwd()))
    message = shlex.quote(f"[stoker] This job was submitted from {Path.cwd()} and cannot enter it.")
    return f"cd -- {place} || {{ echo {message} >&2; exit 126; }}\n{script}"


def test_run_prints_what_the_job_prints_and_nothing_else_on_stdout(stoker: RunStoker) -> None:
    server = ending("Succeeded", "every pod exited with code 0", ("hi", "", "t\tab\rcarriage", "ü"))
    done = stoker("run", "--", "python", "-c", 'print("hi")', server=server)
    assert (done.exit_code, done.stdout_bytes) == (0, "hi\n\nt\tab\rcarriage\nü\n".encode())
    assert done.stderr == f"{NAME}: Pending\n"
    assert sent(server) == {
        "displayName": "python",
        "groupVersionKind": {"kind": "Job", "version": "v1"},
        "image": "none",
        "entryPoint": here("""python -c 'print("hi")'"""),
        "resource": {"cpu": "1", "memory": "1Gi", "gpu": "0", "replica": 1},
    }


def test_run_not_here_begins_in_the_folder_of_the_workload(stoker: RunStoker) -> None:
    server = ending("Succeeded", "every pod exited with code 0", ())
    assert stoker("run", "--not-here", "--", "true", server=server).exit_code == 0
    assert sent(server)["entryPoint"] == "true"


@pytest.mark.parametrize("words", [("--", "ls"), ("--script", "ls"), ("--script-file", "-")])
def test_what_is_typed_begins_in_the_same_directory_with_submit_as_with_run(
    stoker: RunStoker, words: tuple[str, ...]
) -> None:
    server = FakeServer({f"POST {MANAGEMENT_PATH}": CREATED})
    assert stoker("submit", "-w", "vision", *words, server=server, stdin="ls").exit_code == 0
    assert sent(server)["entryPoint"] == here("ls")
    [asked] = server.asked_for("GET", "/api/stoker/v1/working-directory")
    assert (asked.url.params["path"], asked.url.params["workspace"]) == (str(Path.cwd()), "vision")
    server = FakeServer({f"POST {MANAGEMENT_PATH}": CREATED})
    assert stoker("submit", "--not-here", *words, server=server, stdin="ls").exit_code == 0
    assert sent(server)["entryPoint"] == "ls"
    far = FakeServer({f"POST {MANAGEMENT_PATH}": CREATED})
    assert stoker("--server", "http://gpu.test", "submit", *words, server=far, stdin="ls").exit_code == 0
    assert sent(far)["entryPoint"] == "ls"


@pytest.mark.parametrize("verb", ["run", "submit"])
def test_a_directory_that_the_job_cannot_enter_is_refused_before_anything_is_submitted(
    stoker: RunStoker, verb: str
) -> None:
    refused = {"path": "/x", "enterable": False, "reason": "The server's user may not enter it."}
    server = FakeServer({f"POST {MANAGEMENT_PATH}": CREATED, "GET /working-directory": (200, refused)})
    failed = stoker(verb, "--here", "ls", server=server)
    assert failed.exit_code == 1
    assert failed.stderr.startswith(f"Error: A job cannot begin in {Path.cwd()}. The server's user may not enter it.\n")
    assert "--not-here" in failed.stderr
    named = stoker(verb, "--", "python", "pyproject.toml", server=server)
    assert named.exit_code == 1
    assert f"cannot begin in {Path.cwd()}. The command names pyproject.toml. The server's user" in named.stderr
    assert server.asked_for("POST", MANAGEMENT_PATH) == []


@pytest.mark.parametrize("verb", ["run", "submit"])
def test_a_command_that_names_nothing_here_runs_elsewhere_and_that_is_said(stoker: RunStoker, verb: str) -> None:
    refused = {"path": "/x", "enterable": False, "reason": "The server's user may not enter it."}
    server = FakeServer({f"POST {MANAGEMENT_PATH}": CREATED, "GET /working-directory": (200, refused)})
    done = stoker(verb, "--", "python", "-c", 'print("hi")', server=server)
    assert f"The job begins in its own working directory, not in {Path.cwd()}. The server's user" in done.stderr
    assert sent(server)["entryPoint"] == """python -c 'print("hi")'"""


@pytest.mark.parametrize("verb", ["run", "submit"])
def test_a_directory_that_was_removed_is_refused_and_not_a_traceback(
    stoker: RunStoker, verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed = tmp_path / "removed"
    removed.mkdir()
    monkeypatch.chdir(removed)
    removed.rmdir()
    server = FakeServer({f"POST {MANAGEMENT_PATH}": CREATED})
    failed = stoker(verb, "--here", "ls", server=server)
    assert (failed.exit_code, server.asked_for("POST", MANAGEMENT_PATH)) == (1, [])
    assert failed.stderr.startswith("Error: A job cannot begin here: this directory was removed.\n")
    done = stoker(verb, "ls", server=server)
    assert "The job begins in its own working directory: this one was removed." in done.stderr
    assert sent(server)["entryPoint"] == "ls"


def test_a_job_that_cannot_enter_its_directory_fails_and_says_so(tmp_path: Path) -> None:
    body = {"entryPoint": base64.b64encode(b"echo elsewhere").decode()}
    start_in_directory(body, str(tmp_path / "it's gone"))
    script = base64.b64decode(body["entryPoint"]).decode()
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (126, "")
    assert f"[stoker] This job was submitted from {tmp_path}/it's gone and cannot enter it.\n" in done.stderr
    start_in_directory(body, str(tmp_path))
    (tmp_path / "it's gone").mkdir()
    script = base64.b64decode(body["entryPoint"]).decode()
    assert subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False).stdout == "elsewhere\n"


@pytest.mark.parametrize(
    ("phase", "message", "code"),
    [
        ("Succeeded", "every pod exited with code 0", 0),
        ("Failed", f"pod {NAME}-0 exited with code 3: The command ended with exit code 3.", 3),
        ("Failed", f"pod {NAME}-0 exited with code 255", 255),
        ("Failed", f"pod {NAME}-0 was killed by signal 9 (exit code 137)", 137),
        ("Failed", f"pod {NAME}-0 exited with code 0", 1),
        ("Failed", "its dependency failed: pod x exited with code 7", 1),
        ("Stopped", "stopped by li.wei", 1),
    ],
)
def test_run_ends_with_the_exit_code_of_the_job(stoker: RunStoker, phase: str, message: str, code: int) -> None:
    done = stoker("run", "false", server=ending(phase, message))
    assert done.exit_code == code
    assert (message in done.stderr) == (phase != "Succeeded")


def test_the_exit_code_is_that_of_the_end_and_not_of_an_earlier_try() -> None:
    found = msgspec.convert(detail(NAME, "Failed", message="pod p exited with code 2"), WorkloadDetailView)
    tried = msgspec.structs.replace(found.conditions[0], type="Queued", message="pod p exited with code 9; retry 1")
    assert job_exit_code(msgspec.structs.replace(found, conditions=(tried, *found.conditions))) == 2


def test_quiet_says_nothing_but_what_the_job_prints(stoker: RunStoker) -> None:
    done = stoker("run", "-q", "false", server=ending("Failed", f"pod {NAME}-0 exited with code 3"))
    assert (done.exit_code, done.stdout, done.stderr) == (3, "hi\n", "")


def test_run_prints_lines_whatever_the_form_of_data_is(stoker: RunStoker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOKER_OUTPUT", "json")
    assert stoker("run", "ls", server=ending("Succeeded")).stdout == "hi\n"
    followed = stoker("submit", "--follow", "ls", server=ending("Succeeded")).stdout
    assert json.loads(followed)["line"] == "hi"


@pytest.mark.parametrize(
    ("words", "script"),
    [(("echo hi; exit 3",), "echo hi; exit 3"), (("echo", "a b", "$HOME"), "echo 'a b' '$HOME'"), (("ls",), "ls")],
)
def test_one_word_is_a_line_for_the_shell_and_several_are_quoted(words: tuple[str, ...], script: str) -> None:
    assert to_script(words) == script


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("python", "train.py", "--lr", "1"), "train"),
        (("python3.11", "-u", "src/My_Train.py"), "my-train"),
        (("python", "-m", "pkg.main"), "pkg-main"),
        (("python", "-c", "print(1)"), "python"),
        (("env", "A=1", "/usr/bin/nvidia-smi", "-L"), "nvidia-smi"),
        (("bash run.sh && echo done",), "run"),
        (("torchrun", "--nproc-per-node", "8", "train.py"), "train"),
        (("7z", "x"), "z"),
        (("...",), "job"),
        (("x" * 80,), "x" * 45),
    ],
)
def test_a_name_is_made_from_the_command(words: tuple[str, ...], name: str) -> None:
    assert derive_display_name(words) == name


def submitted(stoker: RunStoker, tmp_path: Path, content: str, *words: str) -> dict[str, Any]:
    path = tmp_path / "night run.yaml"
    path.write_text(content)
    server = FakeServer({f"POST {MANAGEMENT_PATH}": CREATED})
    done = stoker("submit", "-f", str(path), *words, server=server)
    assert done.exit_code == 0, done.stderr
    return sent(server)


def test_a_file_has_the_fields_of_the_api_and_numbers_become_texts(stoker: RunStoker, tmp_path: Path) -> None:
    content = """
        groupVersionKind: {kind: PyTorchJob, version: v1}
        image: pytorch:2
        script: |
          python train.py
        resource: {cpu: 8, gpu: 2, memory: 64Gi, replica: 4}
        env: {SEED: 1, DEBUG: true}
        priority: 1
    """
    assert submitted(stoker, tmp_path, content) == {
        "displayName": "night-run",
        "groupVersionKind": {"kind": "PyTorchJob", "version": "v1"},
        "image": "pytorch:2",
        "entryPoint": "python train.py\n",
        "resource": {"cpu": "8", "memory": "64Gi", "gpu": "2", "replica": 4},
        "env": {"SEED": "1", "DEBUG": "true"},
        "priority": 1,
    }


def test_the_job_file_of_the_docs_is_what_the_api_takes(stoker: RunStoker, tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "workloads.md").read_text()
    file = page.partition("```yaml\n")[2].partition("```")[0]
    server = FakeServer({f"POST {MANAGEMENT_PATH}": CREATED})
    (tmp_path / "job.yaml").write_text(file)
    assert stoker("submit", "-f", str(tmp_path / "job.yaml"), server=server).exit_code == 0
    assert BodyDecoder(CreateWorkload)(server.asked[0].content).resource.replica == 2


def test_a_flag_wins_over_the_file(stoker: RunStoker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERE", "value")
    content = '{"displayName": "a", "script": "old", "resource": {"gpu": "8"}, "env": {"A": "1", "B": "2"}}'
    words = ("--name", "b", "--gpu", "1", "-e", "B=3=4", "-e", "HERE", "--kind", "Deployment", "--timeout", "2h")
    more = ("--label", "team=vision", "--node", "n1", "--port", "80", "--", "new", "one")
    body = submitted(stoker, tmp_path, content, *words, *more)
    assert (body["displayName"], body["entryPoint"], body["resource"]["gpu"]) == ("b", here("new one"), "1")
    assert body["env"] == {"A": "1", "B": "3=4", "HERE": "value"}
    assert (body["groupVersionKind"]["kind"], body["timeout"], body["service"]) == ("Deployment", 7200, {"port": 80})
    assert (body["customerLabels"], body["specifiedNodes"]) == ({"team": "vision"}, ["n1"])


def test_a_dependency_is_named_by_its_id_or_by_a_name_that_only_it_has(stoker: RunStoker) -> None:
    server = FakeServer(
        {f"POST {MANAGEMENT_PATH}": CREATED, f"GET {MANAGEMENT_PATH}": (200, counted(workload("prepare-b2c4d")))}
    )
    server.answers |= {
        f"GET {MANAGEMENT_PATH}/{each}": (200, detail(each)) for each in ("prepare-b2c4d", "fetch-x5z6q")
    }
    assert stoker("submit", "--after", "prepare", "--after", "fetch-x5z6q", "x", server=server).exit_code == 0
    assert server.bodies()[0]["dependencies"] == ["prepare-b2c4d", "fetch-x5z6q"]
    two = counted(workload("prepare-b2c4d"), workload("prepare-x5z6q"))
    server.answers[f"GET {MANAGEMENT_PATH}"] = (200, two)
    failed = stoker("submit", "--after", "prepare", "x", server=server)
    assert failed.exit_code == 2
    assert 'There are 2 workloads with the name "prepare": prepare-b2c4d, prepare-x5z6q.' in failed.stderr


def test_a_submit_says_what_to_type_next(stoker: RunStoker) -> None:
    server = FakeServer({f"POST {MANAGEMENT_PATH}": CREATED})
    done = stoker("--server", "http://gpu.test", "submit", "--", "python", server=server)
    assert done.stdout == f"Submitted {NAME}.\nNext: stoker --server http://gpu.test logs -f {NAME}\n"
    assert json.loads(stoker("submit", "--json", "python", server=server).stdout) == {"workloadId": NAME}
    shell = stoker("submit", "--kind", "Authoring", server=server)
    assert shell.stdout == f"Submitted {NAME}.\nNext: stoker shell {NAME}\n"


def test_a_dry_run_submits_nothing(stoker: RunStoker) -> None:
    verdict = {"dryRun": True, "accepted": True, "message": "It would be accepted.", "schedulerOrder": 3}
    server = FakeServer({f"POST {MANAGEMENT_PATH}": (200, verdict)})
    assert json.loads(stoker("submit", "--dry-run", "--json", "ls", server=server).stdout) == verdict
    assert server.asked_for("POST", MANAGEMENT_PATH)[0].url.params["dryRun"] == "true"


def test_a_dry_run_of_what_would_be_refused_fails_and_has_no_place(stoker: RunStoker) -> None:
    verdict = {"dryRun": True, "accepted": False, "message": "Too large.", "schedulerOrder": 0}
    done = stoker("submit", "--dry-run", "ls", server=FakeServer({f"POST {MANAGEMENT_PATH}": (200, verdict)}))
    assert (done.exit_code, done.stdout) == (1, "Accepted  no\nMessage   Too large.\nPlace     -\n")


def test_follow_ends_with_the_exit_code_and_wait_with_success_or_not(stoker: RunStoker) -> None:
    words = f"pod {NAME}-0 exited with code 3"
    assert stoker("submit", "--follow", "false", server=ending("Failed", words)).exit_code == 3
    assert stoker("submit", "--wait", "false", server=ending("Failed", words)).exit_code == 1
    done = stoker("submit", "--wait", "--json", "true", server=ending("Succeeded"))
    assert (done.exit_code, json.loads(done.stdout)["phase"]) == (0, "Succeeded")


@pytest.mark.parametrize(
    "words",
    [
        ("run",),
        ("run", "-e", "NOT_SET_ANYWHERE", "ls"),
        ("run", "--timeout", "soon", "ls"),
        ("run", "--priority", "3", "ls"),
        ("submit",),
        ("submit", "-f", "/nowhere.yaml"),
        ("submit", "--script", "a", "--", "b"),
        ("submit", "--label", "x", "ls"),
        ("exec", "x"),
        ("exec", "-t", "x", "--", "ls"),
        ("shell", "x"),
        ("patch", "x"),
        ("delete", "x"),
        ("wait", "--for", "ever", "x"),
        ("logs", "--tail", "0", "x"),
    ],
)
def test_what_is_typed_wrong_is_code_2_and_nothing_is_asked(stoker: RunStoker, words: tuple[str, ...]) -> None:
    server = FakeServer()
    failed = stoker(*words, server=server)
    assert failed.exit_code == 2
    assert "Error: " in failed.stderr
    assert server.asked == []


@pytest.mark.parametrize("content", ["a: [", "- a list", "", "{script: a, entryPoint: Yg==}", "resource: 3", "env: 3"])
def test_a_file_that_makes_no_sense_is_code_2(stoker: RunStoker, tmp_path: Path, content: str) -> None:
    (tmp_path / "job.yaml").write_text(content)
    server = FakeServer()
    assert stoker("submit", "-f", str(tmp_path / "job.yaml"), server=server).exit_code == 2
    assert server.asked == []


def test_what_can_never_fit_is_a_failure_with_the_numbers(stoker: RunStoker) -> None:
    server = FakeServer(
        {f"POST {MANAGEMENT_PATH}": (403, management_problem("Stoker.00008", "It asks for 99 GPUs; there are 4."))}
    )
    failed = stoker("run", "--gpu", "99", "ls", server=server)
    assert (failed.exit_code, failed.stderr) == (1, "Error: It asks for 99 GPUs; there are 4.\n")


def test_a_file_that_cannot_be_read_names_the_line(stoker: RunStoker, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("displayName: a\nenv: [\n")
    failed = stoker("submit", "-f", str(tmp_path / "job.yaml"), server=FakeServer({}))
    assert "job.yaml is not YAML: expected the node content, but found '<stream end>', in line 3." in failed.stderr
