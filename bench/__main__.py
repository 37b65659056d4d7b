"""Runs the benches: every module of this package lists its own in `BENCHES`, functions that yield lines."""

import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterator

import bench

Bench = Callable[[], Iterator[str]]


def registered() -> dict[str, Bench]:
    """All benches by name, `module.function`."""
    found: dict[str, Bench] = {}
    for module in pkgutil.iter_modules(bench.__path__):
        if module.name != "__main__":
            for each in importlib.import_module(f"bench.{module.name}").BENCHES:
                found[f"{module.name}.{each.__name__}"] = each
    return found


def main(wanted: list[str]) -> int:
    """Run those named by module, by function or by both; all when none is named."""
    benches = registered()
    chosen = [name for name in benches if not wanted or {name, *name.split(".")} & set(wanted)]
    if unknown := [word for word in wanted if not any(word in {name, *name.split(".")} for name in benches)]:
        print(f"There is no bench {', '.join(unknown)}. There are: {', '.join(benches)}.", file=sys.stderr)
        return 2
    for name in chosen:
        print(f"{name}: {benches[name].__doc__}", flush=True)
        for line in benches[name]():
            print(f"  {line}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
