"""Options of the test run."""

import random
import signal
import threading

import kernel_loops

# Where a shell started the run in the background, interrupts are ignored, by processes that tests
# start too.
if (
    threading.current_thread() is threading.main_thread()
    and signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):
    signal.signal(signal.SIGINT, signal.default_int_handler)


kernel_loops.watch()


def pytest_addoption(parser):
    parser.addoption(
        "--shuffle", type=int, metavar="SEED", help="run the tests in a random order, given by SEED"
    )


def pytest_collection_modifyitems(config, items):
    seed = config.getoption("--shuffle")
    if seed is not None:
        random.Random(seed).shuffle(items)
