"""What pyproject.toml cannot say to setuptools: which folders outside of the packages are in the wheel, and where."""

from setuptools import find_namespace_packages, setup

PACKAGES = ("routerweb", "agents_app", "datasets_app", "training_app", "orchestration_app")
#: Beside the packages in a checkout, in the package `routerweb` of a wheel: routerweb/paths.py finds them.
FOLDERS = ("templates", "static", "locale")

setup(
    # To setuptools a folder of data is a package, too.
    packages=[
        *find_namespace_packages(include=[part for name in PACKAGES for part in (name, f"{name}.*")]),
        *(f"routerweb.{name}" for name in FOLDERS),
        *(f"routerweb.{name}.{below}" for name in FOLDERS for below in find_namespace_packages(name)),
    ],
    package_dir={f"routerweb.{name}": name for name in FOLDERS},
    package_data={
        "training_app.engine.reading": ["*.json"],
        "orchestration_app": ["catalog.json"],
        "datasets_app.demo": ["*.jsonl", "*.md", "**/*.txt"],
        **{f"routerweb.{name}": ["**/*"] for name in FOLDERS},
    },
)
