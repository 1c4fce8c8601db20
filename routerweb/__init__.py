"""Routerweb. A program that embeds the engine needs only `from routerweb import Router`, which loads neither Django nor a server."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from training_app.engine import ArtifactError, Explanation, Route, Router

__all__ = ("ArtifactError", "Explanation", "Route", "Router")


def __getattr__(name: str) -> Any:
    # Imported when used: the web application imports this package for its settings, and must not pay for the engine.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from training_app import engine

    return getattr(engine, name)
