"""The engine: text in, the set of agents out. To embed it, `from routerweb import Router` is enough."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from training_app.engine.data.artifact import ArtifactError
    from training_app.engine.routing.router import Router
    from training_app.engine.routing.routes import Explanation, Route

__all__ = ("ArtifactError", "Explanation", "Route", "Router")


def __getattr__(name: str) -> Any:
    # Imported when asked for: what needs one file of the engine does not pay for the router.
    if name == "ArtifactError":
        from training_app.engine.data.artifact import ArtifactError

        return ArtifactError
    if name in __all__:
        from training_app.engine.routing import router

        return getattr(router, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
