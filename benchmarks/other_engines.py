"""Exact EM on Ray and on Spark: the programs of docs/distributed.md, run as they stand there.

``python -m benchmarks.other_engines``, with ray and pyspark installed, and Java for the latter.
"""

from __future__ import annotations

import operator
import os
import platform
import re
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

import fastem
import fastem.distributed

from .generated import ROOT, table, write


def program(engine):
    """The lines of one of the page's programs."""
    page = (ROOT / "docs/distributed.md").read_text()
    return re.search(f"<!-- {engine} -->\n```python\n(.*?)```", page, re.DOTALL).group(1)


def run(engine, files, **names):
    """The model that it comes to."""
    scope = {"fastem": fastem, "np": np, "operator": operator, "files": files, **names}
    exec(compile(program(engine), f"<{engine}>", "exec"), scope)
    return scope["model"]


def on_ray(files):
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        return run("ray", files, ray=ray), f"Ray {ray.__version__}"
    finally:
        ray.shutdown()


def on_spark(files):
    import pyspark
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable

    spark = (
        SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    )
    try:
        return run("spark", files, spark=spark), f"Spark {pyspark.__version__}"
    finally:
        spark.stop()


def main():
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40_000, 8)) + 3.0 * rng.integers(3, size=(40_000, 1))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for number, part in enumerate(np.array_split(X, 4)):
            files.append(str(Path(folder) / f"{number}.npy"))
            np.save(files[-1], part)
        start = fastem.GaussianMixture(3, max_iter=0, random_state=0).fit(np.load(files[0]))
        here = fastem.GaussianMixture(
            3, max_iter=20, tol=0, weights_init=start.weights_, means_init=start.means_,
            precisions_init=start.precisions_,
        ).fit(X)  # fmt: skip
        for engine in (on_ray, on_spark):
            try:
                model, name = engine(files)
            except ImportError as error:
                rows.append((engine.__name__[3:], f"not run: {error}", ""))
                continue
            gap = max(
                np.abs(getattr(model, a) - getattr(here, a)).max()
                for a in ("weights_", "means_", "covariances_")
            )
            rows.append((name, "one machine, four files", f"{gap:.1e}"))
    text = table(["engine", "run on", "largest difference of a parameter"], rows)
    text += f"\n\nPython {platform.python_version()}; 40,000 × 8 points, K = 3."
    write("docs/distributed.md", "other engines", text)
    print(text)


if __name__ == "__main__":
    main()
