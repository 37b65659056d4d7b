"""The settings of this machine: flags, environment and file, resolved as the server resolves them."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.resolving import Resolved, SettingDoc, describe, resolve

C = TypeVar("C", bound=Callable[..., Any])


def config_option(command: C) -> C:
    return click.option(
        "--config", metavar="FILE", envvar="STOKER_CONFIG", help="TOML file with settings [STOKER_CONFIG]."
    )(command)


def setting_flags(command: C) -> C:
    """One flag per setting, in the order of the settings page."""
    for doc in reversed(describe()):
        alone = "true" if doc.takes == "true|false" else None
        option = click.option(
            doc.flag, doc.name, metavar=_metavar(doc), help=_help(doc), is_flag=False, flag_value=alone
        )
        command = option(command)
    return config_option(command)


def data_dir_option(command: C) -> C:
    return click.option(
        "--data-dir", metavar="DIR", help="The server's data directory [STOKER_DATA_DIR; default ~/.stoker]."
    )(command)


def resolved(config: str | None, flags: Mapping[str, object]) -> Resolved:
    """The settings in force here; one that cannot be taken is an error that names it."""
    from stoker.server.settings_file import load

    return resolve(flags, os.environ, load(config or None))


def sqlite_data_dir(data_dir: str | None, config: str | None) -> Path:
    """The data dir of an installation whose database is a file in it."""
    settings = resolved(config, {"data_dir": data_dir}).settings
    if settings.database:
        raise StokerError(
            ErrorCode.STATE_FORBIDS,
            "The database of this installation is PostgreSQL, which is not a file.",
            hint="Back it up with pg_dump and restore it with pg_restore.",
        )
    return Path(settings.data_dir)


def warn(warnings: tuple[str, ...]) -> None:
    for warning in warnings:
        click.echo(f"{click.style('Warning:', fg='yellow', bold=True)} {warning}", err=True)


def _metavar(doc: SettingDoc) -> str:
    if "|" in doc.takes:
        return f"[{doc.takes}]"
    if "=" in doc.takes:
        return doc.takes.split()[0].upper()
    return "NUMBER" if "number" in doc.takes else doc.takes.split()[-1].upper()


def _help(doc: SettingDoc) -> str:
    limits = f"{doc.takes}; " if "number" in doc.takes else ""
    return f"{doc.description} [{limits}default {doc.default or 'empty'}]"
