"""The script that starts a pod's keeper: `python -I -S shim.py <pod folder>`, or `--probe <folder>` to try the walls.

It runs without site-packages and imports nothing but C modules and `keeper`, which is cached as bytecode.
"""

import gc
import os
import sys

gc.disable()  # nothing to collect in the few milliseconds until a keeper runs
sys.path.append(sys.argv[0].rpartition("/")[0])

from keeper.launch import main  # noqa: E402  # pyrefly: ignore[missing-import]

if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))  # without the clean-up of an interpreter, a third of its time
