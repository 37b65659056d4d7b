"""Derives a display name from the command: the name of the script, the module or the program."""

import re
from pathlib import PurePath

MAX_NAME_CHARS = 45
DEFAULT_NAME = "job"
_INTERPRETERS = re.compile(r"(python|bash|sh|zsh|node|ruby|perl|Rscript|julia|torchrun|accelerate|deepspeed)[\d.]*\Z")


def derive_display_name(command: tuple[str, ...], file: str | None = None) -> str:
    """`python train.py --lr 1` is `train`, `python -m my.module` is `my-module`, `nvidia-smi -L` is `nvidia-smi`."""
    if not command:
        return _to_legal_name(PurePath(file).stem if file else "")
    words = list(command) if len(command) > 1 else command[0].split()
    while words and re.match(r"(env|exec|nice|\w+=.*)\Z", PurePath(words[0]).name):
        words.pop(0)
    if not words:
        return DEFAULT_NAME
    program = PurePath(words[0]).name
    if _INTERPRETERS.match(program):
        return _to_legal_name(_script_name(words[1:]) or program)
    return _to_legal_name(PurePath(program).stem)


def _script_name(arguments: list[str]) -> str:
    """The script that an interpreter runs; None if the code itself is an argument."""
    if "-m" in arguments[:-1]:
        return arguments[arguments.index("-m") + 1]
    if "-c" in arguments:
        return ""
    scripts = (PurePath(word).stem for word in arguments if re.match(r"[^-].*\.\w{1,4}\Z", word))
    return next(scripts, "")


def _to_legal_name(text: str) -> str:
    lower = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    return re.sub(r"^[^a-z]+", "", lower)[:MAX_NAME_CHARS].rstrip("-") or DEFAULT_NAME
