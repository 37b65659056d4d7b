"""A group of commands that suggests the nearest name for an unknown command."""

import click

COMMAND_KEY = "stoker.command"


class CommandGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # in the order of their definition

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None and not ctx.resilient_parsing and not name.startswith("-"):
            raise click.UsageError(f'There is no command "{name}" here.{self._suggest_command(ctx, name)}', ctx)
        ctx.meta[COMMAND_KEY] = f"{ctx.command_path} {name}"
        return super().resolve_command(ctx, args)

    def _suggest_command(self, ctx: click.Context, name: str) -> str:
        import difflib

        near = difflib.get_close_matches(name, self.list_commands(ctx), n=1, cutoff=0.5)
        return f' Did you mean "{ctx.command_path} {near[0]}"?' if near else ""
