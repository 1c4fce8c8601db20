"""The site under test, with eyes of its own on the database."""

import time
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from benchmarks.machines.site import Machine, Site, owner_of_port, wait_for
from tests import on_postgresql

SMALL = {
    "encoder": "linear",
    "folds": 3,
    "max_features": 2000,
    "total_steps": 300,
    "val_eval_freq": 100,
    "baselines": False,
}

#: Every write of a run or of a pre-labeling job, by which attempt and over which connection.
WATCH = """
CREATE TABLE seen_write (
    id bigserial PRIMARY KEY, kind text, job bigint, status text, attempt uuid, port int, at timestamptz DEFAULT clock_timestamp()
);
CREATE FUNCTION see_write() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO seen_write (kind, job, status, attempt, port) VALUES (TG_ARGV[0], NEW.id, NEW.status, NEW.attempt,
        (SELECT client_port FROM pg_stat_activity WHERE pid = pg_backend_pid()));
    RETURN NEW;
END $$;
CREATE TRIGGER see_run AFTER UPDATE ON training_app_run FOR EACH ROW EXECUTE FUNCTION see_write('run');
CREATE TRIGGER see_job AFTER UPDATE ON datasets_app_prelabeljob FOR EACH ROW EXECUTE FUNCTION see_write('prelabel');
"""


class Bench:
    """The site under test, and eyes of its own on the database."""

    def __init__(self, site: Site, server: on_postgresql.Server, disk: Path | None, texts: list[str]) -> None:
        self.site, self.server, self.disk, self.texts = site, server, disk, texts
        self.key = site.key("shop", "route", "ops")
        self.query(WATCH)
        self.web: list[Machine] = [site.start("web"), site.start("web")]
        self.workers: list[Machine] = []

    def query(self, sql: str, *values: Any) -> list[dict[str, Any]]:
        with psycopg.connect(self.server.url, autocommit=True, row_factory=dict_row) as connection:
            found = connection.execute(sql, values or None)
            return found.fetchall() if found.description else []

    def one(self, sql: str, *values: Any) -> Any:
        return next(iter(self.query(sql, *values)[0].values()))

    def need_workers(self, count: int) -> None:
        while len(self.workers) < count:
            self.workers.append(self.site.start("worker"))

    def worker_of(self, kind: str, job: int) -> tuple[Machine, int]:
        """The machine and the process that wrote last of that job: by the port of its connection."""
        port = self.one(
            "SELECT port FROM seen_write WHERE kind = %s AND job = %s AND status = 'running' ORDER BY id DESC LIMIT 1",
            kind,
            job,
        )
        for machine in self.workers:
            if pid := owner_of_port(port, machine.processes()):
                return machine, pid
        raise AssertionError(f"no worker holds port {port}")

    def launch(self, config: dict, web: int = 0) -> int:
        status, run = self.web[web].post("/api/runs/", self.key, {"pool": "shop", "config": config})
        assert status == 201, run
        return int(run["id"])

    def status(self, table: str, job: int) -> str:
        return str(self.one(f"SELECT status FROM {table} WHERE id = %s", job))

    def health(self) -> list[dict]:
        return [machine.get("/api/health/", self.key)[1] for machine in self.web]

    def first_model(self) -> None:
        """See that the pool answers."""
        if not self.one("SELECT count(*) FROM training_app_routermodel WHERE state = 'active'"):
            self.need_workers(1)
            if not self.one("SELECT count(*) FROM training_app_routermodel"):
                run = self.launch(SMALL)
                wait_for(lambda: self.status("training_app_run", run) == "done", "the first model")
            version = self.one("SELECT min(version) FROM training_app_routermodel")
            assert self.promote(f"shop-{version}")[0] == 200
        time.sleep(2.5)

    def promote(self, name: str, web: int = 0) -> tuple[int, Any]:
        return self.web[web].post(
            f"/api/models/{name}/promote/", self.key, {"override": "to see how promotions spread"}
        )


def say(**figures: Any) -> None:
    for name, value in figures.items():
        print(f"    {name.replace('_', ' ')}: {value}", flush=True)


def settle(bench: Bench) -> None:
    """Wait until every decision is written."""
    wait_for(lambda: all(found["decisions"]["waiting"] == 0 for found in bench.health()), "an empty buffer", 60)
