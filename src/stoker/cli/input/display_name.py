"""A display name for what was given none: the script's, the module's or the program's."""

import re
from pathlib import PurePath

NAME = 45
FALLBACK = "job"
_RUNS_SCRIPTS = re.compile(r"(python|bash|sh|zsh|node|ruby|perl|Rscript|julia|torchrun|accelerate|deepspeed)[\d.]*\Z")


def name_from(command: tuple[str, ...], file: str | None = None) -> str:
    """`python train.py --lr 1` is `train`, `python -m my.module` is `my-module`, `nvidia-smi -L` is `nvidia-smi`."""
    if not command:
        return _legal(PurePath(file).stem if file else "")
    words = list(command) if len(command) > 1 else command[0].split()
    while words and re.match(r"(env|exec|nice|\w+=.*)\Z", PurePath(words[0]).name):
        words.pop(0)
    if not words:
        return FALLBACK
    program = PurePath(words[0]).name
    if _RUNS_SCRIPTS.match(program):
        return _legal(_script(words[1:]) or program)
    return _legal(PurePath(program).stem)


def _script(arguments: list[str]) -> str:
    """The script that an interpreter is told to run; none when it gets the text itself."""
    if "-m" in arguments[:-1]:
        return arguments[arguments.index("-m") + 1]
    if "-c" in arguments:
        return ""
    scripts = (PurePath(word).stem for word in arguments if re.match(r"[^-].*\.\w{1,4}\Z", word))
    return next(scripts, "")


def _legal(text: str) -> str:
    lower = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    return re.sub(r"^[^a-z]+", "", lower)[:NAME].rstrip("-") or FALLBACK
