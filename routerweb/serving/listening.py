"""Where the web server listens and with how many processes: those settings that its parent process reads, which never loads the rest.

`settings` takes them from here.
"""

from routerweb import env
from routerweb.paths import DATA_DIR

env.load_file(DATA_DIR / "installation.env")

DEBUG = env.boolean("DEBUG", False)
LISTEN_HOST = env.text("LISTEN_HOST", "127.0.0.1")
PORT = env.integer("PORT", 8000, low=1, high=65535)
WEB_WORKERS = env.integer("WEB_WORKERS", 1, low=1)
