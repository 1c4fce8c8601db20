"""Keeps a route on one core: a matrix product of one text is too small to share between BLAS threads, which spin while they wait."""

import os
from functools import cache

#: Whoever sets one of these has chosen a number of threads.
CHOSEN = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "OMP_NUM_THREADS")


@cache
def use_one_blas_thread() -> None:
    """Limit numpy's BLAS to one thread in this process, once; not where an environment variable of CHOSEN sets a number."""
    if any(os.environ.get(name) for name in CHOSEN):
        return
    from threadpoolctl import threadpool_limits

    threadpool_limits(limits=1, user_api="blas")
