"""Health, readiness, and the pages that describe the API."""

import json
from pathlib import Path

import pytest
from tests.api.harness import FAR, V1, Harness
from tests.postgres import PostgresServer


def test_the_process_is_alive(harness: Harness) -> None:
    answer = harness.get("/healthz", peer=FAR)
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


def test_it_is_ready_when_the_database_answers(any_harness: Harness) -> None:
    name = "PostgreSQL" if any_harness.settings.database else "SQLite"
    parts = [{"name": "database", "ready": True, "message": name}]
    answer = any_harness.get("/readyz")
    assert (answer.status_code, answer.json()) == (200, {"ready": True, "parts": parts})


def test_it_names_a_database_that_is_closed_and_stays_alive(any_harness: Harness) -> None:
    any_harness.run(any_harness.installation.store.close())
    answer = any_harness.get("/readyz")
    parts = [{"name": "database", "ready": False, "message": "Stoker is stopping; its database is closed."}]
    assert (answer.status_code, answer.json()) == (503, {"ready": False, "parts": parts})
    assert any_harness.get("/healthz").status_code == 200


def test_a_loop_that_fails_again_and_again_is_named_and_counted(harness: Harness) -> None:
    loops, now = harness.loops, harness.clock.now()
    loops.record_start("queue", "east", now)
    for failures in range(1, 4):
        assert harness.get("/readyz").status_code == 200
        loops.record_failure("queue", "east", now, "The disk is full.")
        up = 'stoker_loop_up{cluster="east",loop="queue"} 0.0'
        assert up in harness.get("/metrics").text
        assert f'stoker_loop_restarts_total{{cluster="east",loop="queue"}} {failures}.0' in harness.get("/metrics").text
    answer = harness.get("/readyz")
    assert answer.status_code == 503
    (part,) = [part for part in answer.json()["parts"] if not part["ready"]]
    assert part["name"] == "loop"
    assert "The loop queue of cluster east has failed 3 times in a row" in part["message"]
    assert "The disk is full." in part["message"]
    loops.record_start("queue", "east", now)
    harness.clock.advance(seconds=60)
    assert harness.get("/readyz").status_code == 200
    assert 'stoker_loop_up{cluster="east",loop="queue"} 1.0' in harness.get("/metrics").text


def test_a_postgresql_that_goes_away_and_comes_back(tmp_path: Path) -> None:
    server = PostgresServer(fsync=False)
    try:
        server.start()
        with server.database() as url, Harness(tmp_path / "data", url) as harness:
            assert harness.get("/readyz").status_code == 200
            server.stop()
            answer = harness.get("/readyz")
            assert answer.status_code == 503
            (part,) = answer.json()["parts"]
            assert (part["name"], part["ready"]) == ("database", False)
            assert f"127.0.0.1:{server.port}/" in part["message"]
            assert "stoker-test" not in answer.text
            asked = harness.get(f"{V1}/me", as_="admin")
            assert asked.status_code == 503
            assert asked.json()["error"]["code"] == "unavailable"
            assert asked.headers["Retry-After"] == "1"
            server.start()
            assert harness.get("/readyz").status_code == 200
            assert harness.get(f"{V1}/me", as_="admin").status_code == 200
    finally:
        server.remove()


def test_the_page_of_the_api_needs_nothing_from_elsewhere(harness: Harness) -> None:
    page = harness.get("/docs")
    assert page.status_code == 200
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "default-src 'self'" in page.headers["Content-Security-Policy"]
    assert "http://" not in page.text
    assert "https://" not in page.text
    for name, kind in (
        ("swagger-ui.css", "text/css; charset=utf-8"),
        ("swagger-ui-bundle.js", "text/javascript; charset=utf-8"),
        ("favicon-32x32.png", "image/png"),
        ("start.js", "text/javascript; charset=utf-8"),
    ):
        assert f"/docs/{name}" in page.text
        asset = harness.get(f"/docs/{name}")
        assert (asset.status_code, asset.headers["Content-Type"]) == (200, kind)
        assert asset.content


@pytest.mark.parametrize("name", ["index.html", "..%2f..%2fapp.py", "%2e%2e", "swagger-ui.css%2f", "x" * 64])
def test_nothing_else_lies_beside_the_page(harness: Harness, name: str) -> None:
    answer = harness.get(f"/docs/{name}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")


def test_the_document_of_the_api_is_open_to_anyone(harness: Harness) -> None:
    answer = harness.get("/openapi.json", peer=FAR)
    assert answer.headers["Content-Type"] == "application/json"
    assert json.loads(answer.content)["openapi"] == "3.1.0"


def test_the_settings_are_shown_with_their_passwords_hidden(harness: Harness) -> None:
    answer = harness.get(f"{V1}/settings", as_="admin").json()
    values = {setting["name"]: setting["value"] for setting in answer["settings"]}
    assert (values["body_limit_bytes"], values["login_attempts"], values["database"]) == (2_097_152, 5, "")
    assert all(setting["description"] for setting in answer["settings"])


def test_the_password_of_the_database_is_hidden(any_harness: Harness) -> None:
    answer = any_harness.get(f"{V1}/settings", as_="admin")
    assert "stoker-test" not in answer.text


def test_the_front_door_sends_a_browser_to_the_docs_and_tells_a_program_where_they_are(harness: Harness) -> None:
    page = harness.get("/", headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert (page.status_code, page.headers["Location"]) == (307, "/docs")
    told = harness.get("/")
    assert (told.status_code, told.json()["name"], told.json()["docs"]) == (200, "stoker", "/docs")
