"""Ctrl-C in the middle of learning is a KeyboardInterrupt, and the estimator is as it was."""

import subprocess
import sys
import textwrap

import pytest

SCRIPT = textwrap.dedent(
    """
    import copy, os, random, signal, sys, threading, warnings
    import numpy as np
    import fastem

    # A shell starts what runs in the background with interrupts ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 20, 4)).cumsum(axis=1)
    rows = rng.normal(size=(6000, 4))
    kind, method = sys.argv[1:]
    estimator, data = {
        "KalmanFilter": lambda: (
            fastem.KalmanFilter(n_dim_state=3, max_iter=3, tol=0.0, batch_size=1), X
        ),
        "GaussianMixture": lambda: (fastem.GaussianMixture(4, max_iter=3, random_state=0), rows),
        "GaussianHMM": lambda: (fastem.GaussianHMM(3, n_iter=3, random_state=0), rows),
    }[kind]()
    estimator.fit(data[:250])
    if method == "partial_fit":
        estimator.partial_fit(data[:250])
    else:
        # So that an interrupt finds it at work.
        estimator.set_params(**{name: 10**6 for name in ("max_iter", "n_iter")
                                if name in estimator.get_params()}, tol=0.0)

    def learned():
        return {k: np.array(v) for k, v in vars(estimator).items()
                if isinstance(v, np.ndarray) and k.endswith("_")}

    for turn in range(8):
        delay = random.Random(turn).uniform(0.01, 0.4)
        threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            while True:
                before, steps = learned(), estimator.n_steps_
                getattr(estimator, method)(data)
        except KeyboardInterrupt:
            pass
        after = learned()
        assert before.keys() == after.keys()
        # The interrupt may come when a call is done and the next has not begun.
        if estimator.n_steps_ == steps:
            for name in before:
                np.testing.assert_array_equal(before[name], after[name], err_msg=name)
        assert all(np.isfinite(value).all() for value in after.values())
    print("done")
    """
)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT to send to itself")
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize("kind", ["KalmanFilter", "GaussianMixture", "GaussianHMM"])
def test_an_interrupt_leaves_the_estimator_as_it_was(kind, method):
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, kind, method], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert run.stdout.strip() == "done"
