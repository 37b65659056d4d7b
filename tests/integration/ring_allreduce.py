"""Run as each rank of a gang: meets the others where the environment says, and adds up a vector over all of them.

With `torch` as its argument it does so through torch.distributed, else over plain sockets.
"""

import json
import os
import socket
import sys
import time

PATIENCE = 20.0


def over_sockets(vector: list[int]) -> list[int]:
    """Rank 0 adds up what the others send, and sends the sum back to each."""
    place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    if os.environ["RANK"] != "0":
        with meet(place) as master, master.makefile("rw") as stream:
            stream.write(json.dumps(vector) + "\n")
            stream.flush()
            return json.loads(stream.readline())
    total = vector
    with socket.create_server(place) as listening:
        streams = [listening.accept()[0].makefile("rw") for _ in range(int(os.environ["WORLD_SIZE"]) - 1)]
        for stream in streams:
            total = [a + b for a, b in zip(total, json.loads(stream.readline()), strict=True)]
        for stream in streams:
            stream.write(json.dumps(total) + "\n")
            stream.close()
    return total


def meet(place: tuple[str, int]) -> socket.socket:
    """A connection to rank 0, which may not listen yet."""
    give_up = time.monotonic() + PATIENCE
    while True:
        try:
            return socket.create_connection(place)
        except OSError:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.02)


def over_torch(vector: list[int]) -> list[int]:
    import torch  # pyrefly: ignore[missing-import]
    from torch import distributed  # pyrefly: ignore[missing-import]

    distributed.init_process_group("gloo", init_method="env://")
    tensor = torch.tensor(vector)
    distributed.all_reduce(tensor)
    distributed.destroy_process_group()
    return tensor.tolist()


if __name__ == "__main__":
    reduce = over_torch if sys.argv[1:] == ["torch"] else over_sockets
    rank = int(os.environ["RANK"])
    print("sum", reduce([1, rank, rank * rank]), "on", os.environ["CUDA_VISIBLE_DEVICES"])
