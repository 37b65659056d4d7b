"""`stoker config`."""

from pathlib import Path

import click

from stoker.cli.credentials import ADMIN_KEY, credentials_file
from stoker.cli.groups import Verbs
from stoker.cli.local import config_option, data_dir_option, resolved, setting_flags, warn
from stoker.cli.options import output_options
from stoker.cli.output import Column, chosen_output, is_text, show_list, show_one
from stoker.domain.settings import public

COLUMNS = (Column("SETTING", "name"), Column("VALUE", "value"), Column("FROM", "origin"))
PLACES = (
    Column("Settings file", "config"),
    Column("Data directory", "dataDir"),
    Column("Database", "database"),
    Column("Admin key", "adminKey"),
    Column("Log-ins", "credentials"),
)


@click.group("config", cls=Verbs)
@output_options()
def command() -> None:
    """The settings that `stoker serve` would have on this machine."""


@command.command("show")
@click.option("--origin", is_flag=True, help="Show where each value comes from.")
@setting_flags
@output_options()
def show(origin: bool, config: str | None, **flags: str | None) -> None:
    """Show every setting; passwords are hidden.

    \b
    stoker config show
    """
    found = resolved(config, flags)
    values = public(found.settings)
    if is_text():
        warn(found.warnings)
    if is_text() or chosen_output() == "csv":
        rows = [{"name": name, "value": value, "origin": found.origins[name]} for name, value in values.items()]
        show_list(rows, COLUMNS if origin else COLUMNS[:2])
    elif origin:
        show_one({name: {"value": value, "origin": found.origins[name]} for name, value in values.items()}, COLUMNS)
    else:
        show_one(values, COLUMNS)


@command.command("path")
@config_option
@data_dir_option
@output_options()
def path(config: str | None, data_dir: str | None) -> None:
    """Show where Stoker keeps its files.

    \b
    stoker config path
    """
    settings = resolved(config, {"data_dir": data_dir}).settings
    folder = Path(settings.data_dir)
    places = {
        "config": config,
        "dataDir": str(folder),
        "database": public(settings)["database"] or str(folder / "stoker.db"),
        "adminKey": str(folder / ADMIN_KEY),
        "credentials": str(credentials_file()),
    }
    show_one(places, PLACES)
