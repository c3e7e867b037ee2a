"""Workers that are lost, and chunks of data that tell when they are loaded."""

import os
import signal
import time

import dask


def kill_one(client, shards=None):
    """End a worker process, one that holds a shard if there are any."""
    pids = client.run(os.getpid)
    held = [address for where in client.who_has(shards or []).values() for address in where]
    address = held[0] if held else sorted(pids)[0]
    os.kill(pids[address], signal.SIGKILL)
    deadline = time.monotonic() + 30
    while address in client.scheduler_info(n_workers=-1)["workers"]:
        assert time.monotonic() < deadline, "the cluster has not noticed that a worker is gone"
        time.sleep(0.02)
    return address


def wait_for_two(client):
    client.wait_for_workers(2, timeout=180)


def loaded_by(log, X, number):
    """A chunk that says, in a file, that it has been loaded."""
    (log / f"{number}-{time.time_ns()}").touch()
    return X


def logged_chunks(log, X, rows):
    load = dask.delayed(loaded_by, pure=False)
    return [load(log, X[i : i + rows], i) for i in range(0, len(X), rows)]
