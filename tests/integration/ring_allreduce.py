"""The program of each rank in the gang tests: an all-reduce over the rendezvous address of the environment.

With the argument `torch` it uses torch.distributed, otherwise plain sockets.
"""

import json
import os
import socket
import sys
import time

CONNECT_TIMEOUT_SECONDS = 20.0


def reduce_over_sockets(vector: list[int]) -> list[int]:
    """Rank 0 receives the vectors of the other ranks and sends their sum to each of them."""
    address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    if os.environ["RANK"] != "0":
        with connect_to_master(address) as master, master.makefile("rw") as stream:
            stream.write(json.dumps(vector) + "\n")
            stream.flush()
            return json.loads(stream.readline())
    total = vector
    with socket.create_server(address) as listener:
        streams = [listener.accept()[0].makefile("rw") for _ in range(int(os.environ["WORLD_SIZE"]) - 1)]
        for stream in streams:
            total = [a + b for a, b in zip(total, json.loads(stream.readline()), strict=True)]
        for stream in streams:
            stream.write(json.dumps(total) + "\n")
            stream.close()
    return total


def connect_to_master(address: tuple[str, int]) -> socket.socket:
    """A connection to rank 0, which may not listen yet."""
    deadline = time.monotonic() + CONNECT_TIMEOUT_SECONDS
    while True:
        try:
            return socket.create_connection(address)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def reduce_with_torch(vector: list[int]) -> list[int]:
    import torch  # pyrefly: ignore[missing-import]
    from torch import distributed  # pyrefly: ignore[missing-import]

    distributed.init_process_group("gloo", init_method="env://")
    tensor = torch.tensor(vector)
    distributed.all_reduce(tensor)
    distributed.destroy_process_group()
    return tensor.tolist()


if __name__ == "__main__":
    reduce = reduce_with_torch if sys.argv[1:] == ["torch"] else reduce_over_sockets
    rank = int(os.environ["RANK"])
    print("sum", reduce([1, rank, rank * rank]), "on", os.environ["CUDA_VISIBLE_DEVICES"])
