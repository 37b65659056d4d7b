"""`stoker completion`."""

import click

from stoker.cli.failures import Failure

SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    \b
    bash: eval "$(stoker completion bash)"    in ~/.bashrc
    zsh:  eval "$(stoker completion zsh)"     in ~/.zshrc
    fish: stoker completion fish > ~/.config/fish/completions/stoker.fish
    """
    from click.shell_completion import get_completion_class

    script = get_completion_class(shell)
    if script is None:
        raise Failure(f"There is no completion for {shell}.")
    click.echo(script(ctx.find_root().command, {}, "stoker", "_STOKER_COMPLETE").source())
