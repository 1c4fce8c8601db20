"""The shell of the pages: django-unfold's settings."""

from typing import Any

from django.templatetags.static import static

UNFOLD: dict[str, Any] = {
    "SITE_TITLE": "Routerweb",
    "SITE_HEADER": "Routerweb",
    "SITE_URL": None,
    "SITE_ICON": lambda request: static("routerweb/mark.svg"),
    "SITE_FAVICONS": [
        {"rel": "icon", "type": "image/svg+xml", "href": lambda request: static("routerweb/mark.svg")},
    ],
    "SHOW_HISTORY": True,
    "SHOW_VIEW_ON_SITE": False,
    "GLOBAL_CALLBACK": "agents_app.navigation.shell",
    "STYLES": [lambda request: static("routerweb/app.css")],
    "SCRIPTS": [lambda request: static("routerweb/app.js")],
    "SIDEBAR": {"show_search": True, "command_search": True, "navigation": "agents_app.navigation.sidebar"},
    "COMMAND": {"search_models": False, "search_callback": "agents_app.navigation.search"},
    # One accent, a calm petrol. 600 carries white text and is text on white; 500 is text on the dark ground: each above 4.5 to 1.
    "COLORS": {
        "primary": {
            "50": "oklch(97.5% .013 208)",
            "100": "oklch(94.5% .028 208)",
            "200": "oklch(89.5% .05 208)",
            "300": "oklch(82.5% .075 208)",
            "400": "oklch(77% .095 208)",
            "500": "oklch(70% .1 208)",
            "600": "oklch(47% .085 212)",
            "700": "oklch(41% .074 214)",
            "800": "oklch(35.5% .062 216)",
            "900": "oklch(30% .05 218)",
            "950": "oklch(23% .038 220)",
        },
    },
}
