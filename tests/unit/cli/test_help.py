"""Every verb says by an example how it is typed, and every example can be typed."""

import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from stoker.cli.main import cli

ROOT = Path(__file__).resolve().parents[3]


def leaves(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every verb that does something by itself."""
    for name in group.list_commands(click.Context(group)):
        found = command_at((*path, name))
        if isinstance(found, click.Group):
            yield from leaves(found, (*path, name))
        elif not found.hidden:
            yield (*path, name)


def command_at(path: tuple[str, ...]) -> click.Command:
    command: click.Command = cli
    for name in path:
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), name)
        assert found is not None
        command = found
    return command


def examples(path: tuple[str, ...]) -> list[list[str]]:
    lines = [line.strip() for line in (command_at(path).help or "").splitlines()]
    typed = [line[line.index("stoker ") :] for line in lines if line.startswith(("stoker ", "bash:", "zsh:", "fish:"))]
    return [shlex.split(line.partition(" > ")[0].partition(')"')[0])[1:] for line in typed]


VERBS = [" ".join(path) for path in leaves(cli) if path != ("ps",)]


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_examples_that_can_be_typed(verb: str) -> None:
    found = examples(tuple(verb.split()))
    assert found
    assert {parsed(words) for words in found} == {verb}


@pytest.mark.parametrize("page", ["README.md", *(str(path) for path in sorted(ROOT.glob("docs/*.md")))])
def test_every_command_of_a_page_can_be_typed(page: str) -> None:
    for line in (ROOT / page).read_text().splitlines():
        if line.startswith("$ stoker "):
            assert parsed(shlex.split(line)[2:])


def parsed(words: list[str]) -> str:
    """The verb that these words are; fails as typing them would."""
    context = cli.make_context("stoker", list(words))
    path: list[str] = []
    while isinstance(context.command, click.Group):
        rest = [*context._protected_args, *context.args]  # the words that belong to the verb
        name, command, rest = context.command.resolve_command(context, rest)
        assert name is not None
        assert command is not None
        path.append(name)
        context = command.make_context(name, rest, parent=context)
    return " ".join(path)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_of_a_shell_asks_stoker(shell: str) -> None:
    script = CliRunner().invoke(cli, ["completion", shell], prog_name="stoker").stdout
    assert f"_STOKER_COMPLETE={shell}_complete" in script


def test_completion_knows_verbs_and_flags() -> None:
    def completed(words: str) -> list[str]:
        typed = {"_STOKER_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)}
        lines = CliRunner().invoke(cli, [], prog_name="stoker", env=typed, complete_var="_STOKER_COMPLETE").stdout
        return [line.partition(",")[2] for line in lines.splitlines()]

    assert completed("stoker exp") == ["explain"]
    assert completed("stoker key cr") == ["create"]
    assert completed("stoker patch --pre") == ["--preemptible"]
    assert "balance" in completed("stoker workspace create vision --queue-policy ")
