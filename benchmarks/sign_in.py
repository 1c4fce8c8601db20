"""`python -m benchmarks.sign_in [--times N]`: does the time of sign-in and password reset tell which addresses have an account?

A fresh installation of its own, Django's real password hash, requests in turns, the order in each turn drawn. Prints for each page the
two medians, and the p value of the Mann-Whitney test that the two come from one distribution.
"""

import argparse
import os
import random
import tempfile
import time


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--times", type=int, default=200, help="requests of each kind (default: 200)")
    times = options.parse_args().times
    with tempfile.TemporaryDirectory(prefix="routerweb-sign-in-") as folder:
        os.environ |= {
            "DJANGO_SETTINGS_MODULE": "routerweb.settings", "DATA_DIR": folder, "PLAIN_HTTP": "1",
            "SECRET_KEY": "only-for-a-benchmarks-site-on-this-machine", "EMAIL_HOST": "mail.invalid",
            "DATABASE_URL": f"sqlite:///{folder}/sign-in.sqlite3", "LOG_LEVEL": "error",
        }  # fmt: skip
        measure(times)


def measure(times: int) -> None:
    """Print a row for each page."""
    import django

    django.setup()
    from django.contrib.auth.models import User
    from django.core.cache import cache
    from django.core.management import call_command
    from django.test import Client
    from scipy.stats import mannwhitneyu

    call_command("migrate", verbosity=0)
    User.objects.create_user("known@example.com", "known@example.com", "a long enough one")
    order = random.Random(0)
    print(f"{'page':<10}{'known, ms':>12}{'unknown, ms':>14}{'p':>8}   ({times} of each)")
    for page, path, form in (
        ("sign-in", "/login/", lambda address: {"login": address, "password": "wrong"}),
        ("reset", "/password/reset/", lambda address: {"email": address}),
    ):
        seconds: dict[str, list[float]] = {"known": [], "other": []}
        for turn in range(times + 3):
            for who in order.sample(sorted(seconds), 2):
                cache.clear()  # or the limits would answer
                began = time.perf_counter()
                answer = Client(HTTP_HOST="localhost").post(path, form(f"{who}@example.com"))
                took = time.perf_counter() - began
                assert answer.status_code in (200, 302), answer.status_code
                if turn >= 3:  # the first ones load what is loaded late
                    seconds[who].append(took)
        medians = [1000 * sorted(seconds[who])[times // 2] for who in ("known", "other")]
        p = mannwhitneyu(seconds["known"], seconds["other"]).pvalue
        print(f"{page:<10}{medians[0]:>12.1f}{medians[1]:>14.1f}{p:>8.3f}", flush=True)


if __name__ == "__main__":
    main()
