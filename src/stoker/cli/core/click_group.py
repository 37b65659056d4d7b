"""A group of verbs that helps with a verb it does not have."""

import click

COMMAND = "stoker.command"


class Verbs(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # in the order they are written

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None and not ctx.resilient_parsing and not name.startswith("-"):
            raise click.UsageError(f'There is no verb "{name}" here.{self._suggestion(ctx, name)}', ctx)
        ctx.meta[COMMAND] = f"{ctx.command_path} {name}"
        return super().resolve_command(ctx, args)

    def _suggestion(self, ctx: click.Context, name: str) -> str:
        import difflib

        near = difflib.get_close_matches(name, self.list_commands(ctx), n=1, cutoff=0.5)
        return f' Did you mean "{ctx.command_path} {near[0]}"?' if near else ""
