"""The script that starts a pod's keeper: `python -I -S shim.py <pod folder>`, or `--probe <folder>` to try the walls.

It runs without site-packages and imports nothing but C modules and `keeper`, which is cached as bytecode.
"""

import sys

sys.path.append(sys.argv[0].rpartition("/")[0])

from keeper.launch import main  # pyrefly: ignore[missing-import]

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
