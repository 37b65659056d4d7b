"""`stoker config`."""

from pathlib import Path

import click

from stoker.cli.core.click_group import CommandGroup
from stoker.cli.core.credentials import ADMIN_KEY_FILE, credentials_file
from stoker.cli.core.options import output_options
from stoker.cli.core.settings_options import (
    config_option,
    data_dir_option,
    load_settings,
    print_warnings,
    settings_options,
)
from stoker.cli.render.output import Column, is_text, selected_output, show_list, show_one
from stoker.domain.settings.schema import redacted_settings

COLUMNS = (Column("SETTING", "name"), Column("VALUE", "value"), Column("FROM", "origin"))
PATH_COLUMNS = (
    Column("Settings file", "config"),
    Column("Data directory", "dataDir"),
    Column("Database", "database"),
    Column("Admin key", "adminKey"),
    Column("Log-ins", "credentials"),
)


@click.group("config", cls=CommandGroup)
@output_options()
def config_command() -> None:
    """The settings that `stoker serve` would have on this machine."""


@config_command.command("show")
@click.option("--origin", is_flag=True, help="Show where each value comes from.")
@settings_options
@output_options()
def show(origin: bool, config: str | None, **flags: str | None) -> None:
    """Show every setting; passwords are hidden.

    \b
    stoker config show
    """
    found = load_settings(config, flags)
    values = redacted_settings(found.settings)
    if is_text():
        print_warnings(found.warnings)
    if is_text() or selected_output() == "csv":
        rows = [{"name": name, "value": value, "origin": found.origins[name]} for name, value in values.items()]
        show_list(rows, COLUMNS if origin else COLUMNS[:2])
    elif origin:
        show_one({name: {"value": value, "origin": found.origins[name]} for name, value in values.items()}, COLUMNS)
    else:
        show_one(values, COLUMNS)


@config_command.command("path")
@config_option
@data_dir_option
@output_options()
def path(config: str | None, data_dir: str | None) -> None:
    """Show where Stoker keeps its files.

    \b
    stoker config path
    """
    settings = load_settings(config, {"data_dir": data_dir}).settings
    folder = Path(settings.data_dir)
    places = {
        "config": config,
        "dataDir": str(folder),
        "database": redacted_settings(settings)["database"] or str(folder / "stoker.db"),
        "adminKey": str(folder / ADMIN_KEY_FILE),
        "credentials": str(credentials_file()),
    }
    show_one(places, PATH_COLUMNS)
