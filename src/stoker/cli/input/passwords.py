"""Reads passwords from a terminal without echo or from stdin, never from the command line."""

import sys

import click


def read_password_lines() -> list[str]:
    """The lines of stdin; at least one."""
    return sys.stdin.read().splitlines() or [""]


def prompt_password(prompt: str, *, twice: bool = False) -> str:
    """A password from the terminal; without a terminal, --password-stdin is required."""
    if not sys.stdin.isatty():
        raise click.UsageError("There is no terminal to ask for the password. Use --password-stdin.")
    return click.prompt(prompt, hide_input=True, confirmation_prompt=twice, err=True)
