"""The settings of this machine: flags, environment and file, resolved as the server resolves them."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.settings.description import SettingDoc, describe_settings
from stoker.domain.settings.loading import ResolvedSettings, resolve_settings

C = TypeVar("C", bound=Callable[..., Any])


def config_option(command: C) -> C:
    return click.option(
        "--config", metavar="FILE", envvar="STOKER_CONFIG", help="TOML file with settings [STOKER_CONFIG]."
    )(command)


def settings_options(command: C) -> C:
    """One flag per setting, in the order of the settings page."""
    for doc in reversed(describe_settings()):
        alone = "true" if doc.value_syntax == "true|false" else None
        option = click.option(
            doc.flag, doc.name, metavar=_metavar(doc), help=_help(doc), is_flag=False, flag_value=alone
        )
        command = option(command)
    return config_option(command)


def data_dir_option(command: C) -> C:
    return click.option(
        "--data-dir", metavar="DIR", help="The server's data directory [STOKER_DATA_DIR; default ~/.stoker]."
    )(command)


def load_settings(config: str | None, flags: Mapping[str, object]) -> ResolvedSettings:
    """The effective settings; an invalid one raises an error that names it."""
    from stoker.server.config_file import load_config_file

    return resolve_settings(flags, os.environ, load_config_file(config or None))


def sqlite_data_dir(data_dir: str | None, config: str | None) -> Path:
    """The data dir of an installation that uses SQLite."""
    settings = load_settings(config, {"data_dir": data_dir}).settings
    if settings.database:
        raise StokerError(
            ErrorCode.CONFLICT,
            "The database of this installation is PostgreSQL, which is not a file.",
            hint="Back it up with pg_dump and restore it with pg_restore.",
        )
    return Path(settings.data_dir)


def print_warnings(warnings: tuple[str, ...]) -> None:
    for warning in warnings:
        click.echo(f"{click.style('Warning:', fg='yellow', bold=True)} {warning}", err=True)


def _metavar(doc: SettingDoc) -> str:
    if "|" in doc.value_syntax:
        return f"[{doc.value_syntax}]"
    if "=" in doc.value_syntax:
        return doc.value_syntax.split()[0].upper()
    return "NUMBER" if "number" in doc.value_syntax else doc.value_syntax.split()[-1].upper()


def _help(doc: SettingDoc) -> str:
    limits = f"{doc.value_syntax}; " if "number" in doc.value_syntax else ""
    return f"{doc.description} [{limits}default {doc.default or 'empty'}]"
