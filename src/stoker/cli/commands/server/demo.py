"""`stoker demo`."""

import click

from stoker.cli.core.click_group import CommandGroup
from stoker.cli.core.options import confirm, output_options, yes_option
from stoker.cli.core.settings_options import config_option, data_dir_option, load_settings
from stoker.cli.render.output import Column, show_result

COLUMNS = (
    Column("Data dir", "dataDir"),
    Column("Workloads", "workloads"),
    Column("Workspaces", "workspaces"),
    Column("Users", "users"),
)


@click.group("demo", cls=CommandGroup)
def demo_command() -> None:
    """The simulated cluster that `stoker serve --demo` adds."""


@demo_command.command("remove")
@yes_option
@data_dir_option
@config_option
@output_options()
def remove(yes: bool, data_dir: str | None, config: str | None) -> None:
    """Remove the demo from a data directory: its cluster, workloads, workspaces, users and files.

    Everything that is not simulated stays. The server must not be running.

    \b
    stoker demo remove
    """
    import asyncio

    from stoker.demo.teardown import remove_demo
    from stoker.domain.clock import SystemClock

    settings = load_settings(config, {"data_dir": data_dir}).settings
    place = "the database" if settings.database else settings.data_dir
    confirm(f"Remove the demo, with all workloads that ran in it, from {place}?", yes)
    done = asyncio.run(remove_demo(settings, SystemClock()))
    counted = f"{done.workloads:,} workloads, {done.workspaces} workspaces and {done.users} users"
    show_result(done, COLUMNS, f"Removed the demo from {place}: {counted}.")
