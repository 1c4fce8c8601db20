"""Faults of what a site stands on: a full disk, and artifacts that cannot be used."""

import hashlib
import io
import json
import time
import uuid
import zipfile

import psycopg

from benchmarks.machines.bench import SMALL, Bench, say, settle
from benchmarks.machines.site import Load, fill, wait_for
from training_app.engine.data import artifact as engine

#: Long enough for the worker to be presumed dead, were it judged by a row that it cannot write, and for training to end meanwhile.
FULL_SECONDS = 100


def full_disk(bench: Bench) -> None:
    """The database's disk fills up while a model answers and another is trained."""
    if bench.disk is None:
        print("    not run: this user may not mount a small disk")
        return
    bench.first_model()
    settle(bench)
    active = bench.health()[0]["models"]["shop"]
    out = bench.site.folder / "exported"
    bench.site.manage("export_model", "--pool", "shop", "--out", str(out))
    bench.need_workers(1)
    run = bench.launch(SMALL | {"total_steps": 6000})
    wait_for(lambda: bench.status("training_app_run", run) == "running", "the start of a run", 60)
    with Load(bench.web, bench.key, bench.texts) as load:
        time.sleep(1)
        filler = fill(bench.disk)
        refused = bench.site.manage("import_model", str(out), "--pool", "shop", check=False)
        exported = bench.site.manage("export_model", "--pool", "shop", "--out", str(bench.disk / "copy"), check=False)
        wait_for(
            lambda: any(found["decisions"]["waiting"] for found in bench.health()),
            "decisions that cannot be written",
            60,
        )
        time.sleep(FULL_SECONDS)
        full = bench.health()
        filler.unlink()
        began = time.monotonic()
        wait_for(lambda: max(found["decisions"]["waiting"] for found in bench.health()) < 250, "writing again", 60, 0.1)
        recovered = time.monotonic() - began
    ended = wait_for(
        lambda: bench.status("training_app_run", run) in ("done", "failed") and bench.status("training_app_run", run),
        "the end of the run", 900,
    )  # fmt: skip
    say(
        import_of_a_model=f"exit {refused.returncode}: {refused.stderr.strip().splitlines()[-1][:150]}",
        export_onto_it=f"exit {exported.returncode}: {exported.stderr.strip().splitlines()[-1][:150]}",
        requests=f"{len(load.answered):,}, failed: {len(load.failed)}, all by {sorted({o.model for o in load.answered})}",
        while_it_was_full=f"{[(f['status'], f['decisions']) for f in full]}",
        decisions_written=f"{recovered:.1f} s after it had room again",
        run=bench.query("SELECT status, attempts, losses, error FROM training_app_run WHERE id = %s", run)[0],
        log=[line for machine in bench.workers for line in machine.log.read_text().splitlines() if "space" in line][:1],
    )
    assert ended == "done"
    assert refused.returncode == 1
    assert "Traceback" not in refused.stderr
    assert exported.returncode == 1
    assert "Traceback" not in exported.stderr
    assert all(found["status"] == "degraded" for found in full)
    assert not load.failed
    assert {one.model for one in load.answered} == {active}


def artifacts(bench: Bench) -> None:
    """An artifact that is cut off, one with a flipped bit, one of a newer format: imported, or damaged in the database."""
    bench.first_model()
    active = bench.health()[0]["models"]["shop"]
    row = bench.query(
        "SELECT m.id, m.version, a.content FROM training_app_artifact a JOIN training_app_routermodel m ON m.id = a.model_id "
        "WHERE m.state <> 'active' ORDER BY m.version LIMIT 1"
    )[0]
    name, sound = f"shop-{row['version']}", bytes(row["content"])
    files = engine.unpack(sound)
    manifest = {
        "format": engine.FORMAT + 1,
        "sha256": {n: hashlib.sha256(data).hexdigest() for n, data in files.items()},
    }
    newer = io.BytesIO()
    with zipfile.ZipFile(newer, "w") as packed:
        packed.writestr(engine.MANIFEST, json.dumps(manifest))
        for each, data in files.items():
            packed.writestr(each, data)
    flipped = bytearray(sound)
    flipped[len(flipped) // 2] ^= 1
    bad = {"cut off": sound[: len(sound) // 2], "one bit flipped": bytes(flipped), "newer format": newer.getvalue()}
    with Load(bench.web, bench.key, bench.texts, pause=0.1) as load:
        for what, content in bad.items():
            path = bench.site.folder / f"{uuid.uuid4()}.zip"
            path.write_bytes(content)
            done = bench.site.manage("import_model", str(path), "--pool", "shop", check=False)
            digest = hashlib.sha256(content).hexdigest()
            # Damaged in the database; the newer one with its own checksum, as if another version of Routerweb had kept it there.
            bench.query("UPDATE training_app_artifact SET content = %s WHERE model_id = %s", content, row["id"])
            if what == "newer format":
                bench.query("UPDATE training_app_routermodel SET artifact_digest = %s WHERE id = %s", digest, row["id"])
            status, said = bench.promote(name)
            print(f"  {what}")
            say(
                imported=f"exit {done.returncode}: {done.stderr.strip().splitlines()[-1][:130]}",
                promoted=f"{status}: {said['error']['message'][:150]}",
            )
            assert done.returncode == 1
            assert "Traceback" not in done.stderr
            assert status == 409
        # The worst: it is active already, by the database, and cannot be loaded.
        with psycopg.connect(bench.server.url) as connection:
            connection.execute("UPDATE training_app_routermodel SET state = 'retired' WHERE state = 'active'")
            connection.execute("UPDATE training_app_routermodel SET state = 'active' WHERE id = %s", (row["id"],))
            connection.execute("UPDATE agents_app_stamp SET value = value + 1")
        time.sleep(2.5)
        told = bench.health()
        third = bench.site.start("web")
        fresh = third.get("/api/health/", bench.key)[1]
        third.process.terminate()
    say(
        active_in_the_database_but_unusable=told[0]["problems"]["shop"],
        a_process_that_starts_then=fresh["problems"]["shop"],
        requests=f"{len(load.answered):,}, failed: {len(load.failed)}, all by {sorted({o.model for o in load.answered})}",
    )
    assert not load.failed
    assert {one.model for one in load.answered} == {active}
    assert all(found["status"] == "degraded" for found in told)
