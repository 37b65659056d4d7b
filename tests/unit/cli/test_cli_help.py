"""Every verb says by an example how it is typed, and every example can be typed."""

import shlex
from collections.abc import Iterator

import click
import pytest

from stoker.cli.main import cli


def leaves(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every verb that does something by itself."""
    for name in group.list_commands(click.Context(group)):
        found = command_at((*path, name))
        if isinstance(found, click.Group):
            yield from leaves(found, (*path, name))
        else:
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
    path = tuple(verb.split())
    found = examples(path)
    assert found
    for words in found:
        parse(words, path)


def parse(words: list[str], path: tuple[str, ...]) -> None:
    """Fails as typing it would."""
    parent = cli.make_context("stoker", list(words))
    rest = [*parent._protected_args, *parent.args]  # the words that belong to the verb
    for name in path:
        assert isinstance(parent.command, click.Group)
        found, _, rest = parent.command.resolve_command(parent, rest)
        assert found == name
        command = command_at(path[: path.index(name) + 1])
        parent = command.make_context(name, list(rest), parent=parent)
        rest = [*parent._protected_args, *parent.args]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_of_a_shell_asks_stoker(shell: str) -> None:
    from click.testing import CliRunner

    script = CliRunner().invoke(cli, ["completion", shell], prog_name="stoker").stdout
    assert f"_STOKER_COMPLETE={shell}_complete" in script


def test_completion_knows_verbs_and_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    from click.testing import CliRunner

    def completed(words: str) -> list[str]:
        typed = {"_STOKER_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)}
        lines = CliRunner().invoke(cli, [], prog_name="stoker", env=typed, complete_var="_STOKER_COMPLETE").stdout
        return [line.partition(",")[2] for line in lines.splitlines()]

    assert completed("stoker exp") == ["explain"]
    assert completed("stoker key cr") == ["create"]
    assert completed("stoker patch --pre") == ["--preemptible"]
    assert "balance" in completed("stoker workspace create vision --queue-policy ")
