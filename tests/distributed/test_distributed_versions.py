"""A cluster whose workers run another fastem is refused by name."""

import sys

import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster

import fastem
from fastem.distributed import fit, fit_online, score
from fastem.distributed.versions import check_versions


@pytest.fixture(scope="module")
def client():
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


def pretend(version=None, kernels=None):
    """Let this process say that it has another fastem; ``""`` is none. Returns nothing."""
    import fastem
    from fastem.kernels import fingerprint

    if version == "":
        sys.modules["fastem"] = None
    if version:
        fastem.__version__ = version
    if kernels:
        fingerprint.FINGERPRINT = kernels


def be_honest(version, kernels):
    for name in [name for name in sys.modules if name.partition(".")[0] == "fastem"]:
        del sys.modules[name]
    import fastem
    from fastem.kernels import fingerprint

    fastem.__version__ = version
    assert fingerprint.FINGERPRINT == kernels


@pytest.fixture
def odd_worker(client):
    """One of the workers, which is itself again afterwards."""
    from fastem.kernels.fingerprint import FINGERPRINT

    worker = sorted(client.scheduler_info(n_workers=-1)["workers"])[0]
    yield worker
    client.run(be_honest, fastem.__version__, FINGERPRINT, workers=[worker])


@pytest.mark.parametrize(
    ("lie", "said"),
    [
        ({"version": "9.8.7"}, "9.8.7"),
        ({"version": ""}, "none"),
        ({"kernels": "0"}, f"{fastem.__version__} with other kernels"),
    ],
)
def test_another_fastem_is_refused_and_named(client, odd_worker, lie, said):
    check_versions(client)
    client.run(pretend, **lie, workers=[odd_worker])
    X = da.from_array(np.random.default_rng(0).normal(size=(40, 2)), chunks=(10, 2))
    model = fastem.GaussianMixture(2, random_state=0)
    expected = rf"client, which has {fastem.__version__}: {odd_worker} has {said}\. Install"
    for run in (fit, fit_online):
        with pytest.raises(RuntimeError, match=expected):
            run(model, X, client=client)
    assert not hasattr(model, "weights_")
    model.fit(X.compute())
    with pytest.raises(RuntimeError, match=expected):
        score(model, X, client=client)


def test_a_worker_that_joins_late_is_asked_too(client, odd_worker):
    from fastem.distributed.chunks import chunks_of
    from fastem.distributed.shards import Shards

    X = da.from_array(np.random.default_rng(0).normal(size=(40, 2)), chunks=(10, 2))
    shards = Shards(client, chunks_of(X))
    client.run(pretend, version="9.8.7", workers=[odd_worker])
    with pytest.raises(RuntimeError, match="9.8.7"):
        shards.checked(fastem.GaussianMixture(2), reset=True)
