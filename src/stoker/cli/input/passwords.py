"""Passwords come from a terminal without echo, or from stdin; never from the command line."""

import sys

import click


def from_stdin() -> list[str]:
    """The lines of stdin; at least one."""
    return sys.stdin.read().splitlines() or [""]


def ask(prompt: str, *, twice: bool = False) -> str:
    """A password from the terminal. Without one, --password-stdin is the way."""
    if not sys.stdin.isatty():
        raise click.UsageError("There is no terminal to ask for the password. Use --password-stdin.")
    return click.prompt(prompt, hide_input=True, confirmation_prompt=twice, err=True)
