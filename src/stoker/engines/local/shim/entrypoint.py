"""The script that starts a pod's shim: `python -I -S entrypoint.py <pod dir>`; `--probe <dir>` tests the sandbox.

It runs without site-packages and imports only C modules and the `shim` package, whose bytecode is cached.
"""

import gc
import os
import sys

gc.disable()  # nothing to collect in the few milliseconds before the shim runs
sys.path.append(sys.argv[0].rsplit("/", 2)[0])

from shim.launch import main  # noqa: E402  # pyrefly: ignore[missing-import]

if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))  # skips the interpreter's clean-up, a third of its run time
