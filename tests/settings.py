"""The product's settings as the tests run them: on this machine's addresses, with quick password hashes."""

import os

os.environ.setdefault("SECRET_KEY", "only-for-tests")
os.environ.setdefault("PLAIN_HTTP", "1")

from routerweb.settings import *

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
