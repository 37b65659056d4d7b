"""`stoker --help` starts quickly because it imports nearly nothing."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

from stoker.cli.main import cli
from stoker.cli.registry import COMMANDS

HEAVY = (
    "httpx",
    "websockets",
    "rich",
    "msgspec",
    "yaml",
    "asyncio",
    "ssl",
    "stoker.domain",
    "stoker.client",
    "stoker.server",
)
IMPORTED = (
    "import sys; from stoker.cli.main import cli; cli(standalone_mode=False); print(*sys.modules, file=sys.stderr)"
)


def modules_after(*words: str) -> set[str]:
    """What a process has imported when it has run these words."""
    run = subprocess.run([sys.executable, "-c", IMPORTED, *words], capture_output=True, text=True, check=True)
    return set(run.stderr.split())


def test_help_imports_nothing_but_click_and_the_table() -> None:
    imported = modules_after("--help")
    assert not [name for name in HEAVY if name in imported]
    assert "click" in imported
    assert not [name for name in imported if name.startswith("stoker.cli.commands")]


@pytest.mark.parametrize(
    "words", [("user", "--help"), ("serve", "--help"), ("config", "show"), ("run", "--help"), ("exec", "--help")]
)
def test_no_verb_brings_the_network_or_a_terminal_before_it_needs_them(words: tuple[str, ...]) -> None:
    imported = modules_after(*words)
    assert not {"httpx", "rich", "uvicorn", "websockets"} & imported


def test_a_client_needs_no_arrays() -> None:
    run = "import sys, stoker.client, stoker.cli.core.connection; print('numpy' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", run], text=True) == "False\n"


@pytest.mark.parametrize("verb", COMMANDS)
def test_every_verb_of_the_table_exists_and_has_help(verb: str) -> None:
    shown = CliRunner().invoke(cli, [verb, "--help"], prog_name="stoker")
    assert shown.exit_code == 0
    assert shown.stdout.startswith(f"Usage: stoker {verb} ")
    assert shown.stdout.count("\n") > 3


def test_help_names_every_verb() -> None:
    lines = CliRunner().invoke(cli, ["--help"], prog_name="stoker").stdout.splitlines()
    assert [line.split()[0] for line in lines if line.startswith("  ") and line.split()[0] in COMMANDS] == list(
        COMMANDS
    )


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_calls_stoker(shell: str) -> None:
    script = CliRunner().invoke(cli, ["completion", shell], prog_name="stoker")
    assert script.exit_code == 0
    assert "_STOKER_COMPLETE" in script.stdout


@pytest.mark.parametrize(("typed", "offered"), [("stoker ba", "backup"), ("stoker workspace add", "add-member")])
def test_the_shell_is_offered_verbs(typed: str, offered: str) -> None:
    env = {"_STOKER_COMPLETE": "bash_complete", "COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1)}
    assert f"plain,{offered}" in CliRunner(env=env).invoke(cli, [], prog_name="stoker").stdout.splitlines()
