"""Runs scripts one after the other, each in a fork: the vendor's package, which takes seconds, is imported once.

A line of the input is a JSON array: the path of a script, what it is given, where its output and its errors go, and how
many seconds it may take. The answer is its exit code, or the number of the signal that ended it as a negative one.
"""

import json
import os
import runpy
import signal
import sys
import traceback

import runai.api_client
import runai.configuration
import runai.models
import runai.runai_client  # noqa: F401 - for the scripts


def run(script: str, given: str, output: str, errors: str, seconds: int) -> int:
    """In the fork: the exit code."""
    signal.alarm(seconds)
    for path, number in ((output, 1), (errors, 2)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    sys.argv = [script, given]
    try:
        runpy.run_path(script, run_name="__main__")
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


for line in sys.stdin:
    fork = os.fork()
    if fork == 0:
        os._exit(run(*json.loads(line)))
    print(os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1]), flush=True)
