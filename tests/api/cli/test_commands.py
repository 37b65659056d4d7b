"""Every command that connects to a server, once, against a real server."""

import csv
import io
from pathlib import Path

import pytest
from tests.api.cli.conftest import PASSWORD, Serving, Terminal

from stoker.client import Stoker

pytestmark = pytest.mark.slow


def test_users_come_and_go(terminal: Terminal) -> None:
    made = terminal.json("user", "create", "ada", "--full-name", "Ada", "--role", "admin", "--email", "ada@x.org")
    assert (made["name"], made["role"], made["fullName"]) == ("ada", "admin", "Ada")
    assert "ada@x.org" in terminal.ok("user", "list", "--name", "ada@")
    assert terminal.json("user", "edit", "ada", "--role", "user", "--disable")["disabled"] is True
    assert [user["name"] for user in terminal.json("user", "list", "--disabled")["items"]] == ["ada"]
    assert terminal.json("user", "show", "ada")["role"] == "user"
    assert "Deleted user ada." in terminal.ok("user", "delete", "ada", "--yes")
    assert terminal.type("user", "show", "ada").returncode == 3


def test_a_department_with_a_workspace_with_a_member(terminal: Terminal) -> None:
    terminal.ok("user", "create", "mia")
    assert terminal.json("department", "create", "research")["name"] == "research"
    assert terminal.json("department", "edit", "research", "--description", "R & D")["description"] == "R & D"
    assert terminal.json("department", "show", "research")["description"] == "R & D"
    terminal.ok(
        *("workspace", "create", "vision", "--department", "research", "--gpu", "8", "--memory", "2Ti"),
        *("--queue-policy", "balance", "--no-preemption"),
    )
    edited = terminal.json("workspace", "edit", "vision", "--gpu", "none", "--cpu", "64", "--description", "cameras")
    assert edited["quota"] == {"gpu": None, "cpu": "64", "memory": "2Ti"}
    assert terminal.json("workspace", "show", "vision")["queuePolicy"] == "balance"
    words = ("--idle-action", "stop", "--idle-window", "1h", "--idle-grace", "15m", "--idle-threshold", "2.5%")
    assert terminal.json("workspace", "edit", "vision", *words)["idlePolicy"] == {
        "action": "stop",
        "threshold": 2.5,
        "windowSeconds": 3600,
        "graceSeconds": 900,
    }
    edited = terminal.json("workspace", "edit", "vision", "--idle-threshold", "none")
    assert edited["idlePolicy"]["threshold"] is None
    assert terminal.json("workspace", "edit", "vision", "--guaranteed-runtime", "30m")["guaranteedSeconds"] == 1800
    assert terminal.json("workspace", "add-member", "vision", "mia", "--role", "manager")["role"] == "manager"
    assert terminal.json("workspace", "members", "vision")["items"][0]["user"] == "mia"
    assert "vision" in terminal.ok("workspace", "list", "--department", "research")
    assert terminal.type("department", "delete", "research", "--yes").returncode == 1
    terminal.ok("workspace", "remove-member", "vision", "mia", "--yes")
    terminal.ok("workspace", "delete", "vision", "--yes")
    terminal.ok("department", "delete", "research", "--yes")
    assert [each["name"] for each in terminal.json("department", "list")["items"]] == ["default"]


def test_a_key_works_until_it_is_revoked(terminal: Terminal, stranger: Terminal) -> None:
    terminal.ok("user", "create", "ken")
    words = ("--user", "ken", "--scope", "read", "--cidr", "127.0.0.0/8", "--expires", "90d")
    secret = terminal.ok("key", "create", "laptop", *words).strip()
    assert stranger.type("whoami", "--json", STOKER_TOKEN=secret).returncode == 0
    [key] = terminal.json("key", "list", "--user", "ken")["items"]
    assert (key["name"], key["scopes"], key["cidrs"]) == ("laptop", ["read"], ["127.0.0.0/8"])
    terminal.ok("key", "delete", key["id"], "--yes")
    assert stranger.type("whoami", STOKER_TOKEN=secret).returncode == 4


def test_an_application_by_its_name(terminal: Terminal) -> None:
    made = terminal.json("app", "create", "ci", "--workspace", "default", "--workspace-role", "viewer")
    assert made["clientId"]
    assert made["clientSecret"]
    assert terminal.json("app", "renew-secret", "ci", "--yes")["clientSecret"] != made["clientSecret"]
    assert terminal.json("app", "disable", "ci")["disabled"] is True
    assert terminal.json("app", "enable", made["clientId"])["disabled"] is False
    assert "ci" in terminal.ok("app", "list")
    terminal.ok("app", "delete", "ci", "--yes")
    gone = terminal.type("app", "delete", "ci", "--yes")
    assert gone.returncode == 3
    assert gone.stderr.endswith("Next: stoker app list\n")


def test_a_webhook_comes_and_goes(terminal: Terminal) -> None:
    where = ("https://8.8.8.8/hook", "--event", "workload.failed", "--description", "pager")
    assert terminal.ok("webhook", "add", *where).startswith("whsec_")
    [hook] = terminal.json("webhook", "list")["items"]
    assert (hook["url"], hook["events"], hook["description"]) == ("https://8.8.8.8/hook", ["workload.failed"], "pager")
    assert terminal.json("webhook", "edit", hook["id"], "--all-events", "--disable")["events"] == []
    assert terminal.json("webhook", "show", hook["id"])["enabled"] is False
    assert "Enable it first" in terminal.type("webhook", "test", hook["id"]).stderr
    assert terminal.json("webhook", "renew-secret", hook["id"], "--keep-old", "0")["secret"].startswith("whsec_")
    assert terminal.json("webhook", "deliveries", hook["id"], "--state", "given-up")["items"] == []
    assert (
        "'pending', 'delivered', 'given-up'" in terminal.type("webhook", "deliveries", "x", "--state", "failed").stderr
    )
    assert terminal.type("webhook", "retry", hook["id"], "1").returncode == 1
    assert "is not on the public internet" in terminal.type("webhook", "add", "https://127.0.0.1/").stderr
    terminal.ok("webhook", "delete", hook["id"], "--yes")
    assert terminal.type("webhook", "show", hook["id"]).returncode == 3


def test_clusters_can_be_seen(terminal: Terminal) -> None:
    [cluster] = terminal.json("cluster", "list")["items"]
    assert terminal.json("cluster", "show", cluster["name"]) == terminal.json("cluster", "show", cluster["id"])


def test_the_audit_log_is_filtered_and_cut(terminal: Terminal) -> None:
    for name in ("one", "two"):
        terminal.ok("department", "create", name)
    words = ("audit", "--since", "1h", "--actor", "admin", "--action", "department.create", "--limit", "1")
    found = terminal.json(*words)
    assert [record["target"] for record in found["items"]] == ["two"]
    assert found["next"] == found["items"][0]["id"]
    rows = list(csv.DictReader(io.StringIO(terminal.ok(*words[:-2], "--limit", "0", "-o", "csv"))))
    assert [row["target"] for row in rows][:2] == ["two", "one"]


def test_a_list_of_several_pages_has_everything_once(
    serving: Serving, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        terminal.ok("department", "create", f"paged-{number}")
    key = (serving.data_dir / "admin.key").read_text().strip()
    with Stoker(serving.address, key) as client:
        whole = [record.id for record in client.audit.list()]
        names = [department.name for department in client.departments.list()]
        monkeypatch.setattr("stoker.client.resources.operations.PAGE_SIZE", 2)
        assert [department.name for department in client.departments.list()] == names
        assert [record.id for record in client.audit.list()] == whole
    assert len(set(whole)) == len(whole) > 3


def test_log_in_who_am_i_and_log_out(serving: Serving, terminal: Terminal, stranger: Terminal) -> None:
    terminal.ok("user", "create", "bob", "--password-stdin", stdin=f"{PASSWORD}\n")
    assert stranger.type("whoami").returncode == 4
    wrong = stranger.type("login", "-u", "bob", "--password-stdin", stdin="not that one\n")
    assert (wrong.returncode, wrong.stdout) == (4, "")
    assert serving.address in stranger.ok("login", "-u", "bob", "--password-stdin", stdin=f"{PASSWORD}\n")
    assert stranger.json("whoami")["user"]["name"] == "bob"
    refused = stranger.type("user", "list")
    assert (refused.returncode, refused.stderr.splitlines()[-1]) == (4, "Next: stoker whoami")
    changed = stranger.type("user", "passwd", "--password-stdin", stdin=f"a much better one\n{PASSWORD}\n")
    assert changed.returncode == 0, changed.stderr
    assert "Signed out" in stranger.ok("logout")
    assert stranger.type("whoami").returncode == 4
    assert "There is no log-in" in stranger.ok("logout")
    terminal.ok("user", "passwd", "bob", "--password-stdin", stdin=f"{PASSWORD}\n")
    stranger.ok("login", "-u", "bob", "--password-stdin", stdin=f"{PASSWORD}\n")


def test_on_the_servers_machine_the_socket_is_enough(serving: Serving, terminal: Terminal) -> None:
    shown = terminal.ok("whoami")
    assert f"the socket {serving.data_dir / 'stoker.sock'}" in shown
    assert (serving.data_dir / "admin.key").read_text().strip() not in shown


def test_a_backup_of_a_running_server_can_be_put_back(terminal: Terminal, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    terminal.ok("user", "create", "kept")
    assert terminal.json("backup", str(copy))["bytes"] == copy.stat().st_size
    again = terminal.type("backup", str(copy))
    assert (again.returncode, "--force" in again.stderr) == (1, True)
    terminal.ok("backup", str(copy), "--force")
    terminal.ok("user", "create", "lost")
    restored = terminal.json("restore", str(copy), "--yes")
    assert restored["whileRunning"] is True
    assert Path(restored["kept"]).exists()
    assert terminal.type("user", "show", "kept").returncode == 0
    assert terminal.type("user", "show", "lost").returncode == 3


def test_a_healthy_installation_passes_its_check(serving: Serving, terminal: Terminal) -> None:
    found = terminal.json("check")
    assert found["ok"] is True
    verdicts = {check["name"]: check["verdict"] for check in found["checks"]}
    expected = ("python", "data dir", "lock", "socket", "database", "server", "admin key", "version")
    assert [verdicts[name] for name in expected] == ["ok"] * len(expected)
    assert f"✓ server: The server at unix://{serving.data_dir}/stoker.sock is ready." in terminal.ok("check")
    assert f"✓ server: The server at {serving.address} is ready." in terminal.ok("check", "--server", serving.address)


def test_a_check_fails_when_the_server_is_not_there(terminal: Terminal) -> None:
    found = terminal.type("check", "--server", "http://127.0.0.1:1")
    assert found.returncode == 1
    assert "✗ server: No server answers at http://127.0.0.1:1" in found.stdout
