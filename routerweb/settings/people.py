"""People: how they sign in and prove who they are, and the mail that they get."""

from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured
from django.urls import reverse_lazy

from routerweb import env

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
LOGIN_URL = reverse_lazy("account_login")
LOGIN_REDIRECT_URL = reverse_lazy("home")
AUTHENTICATION_BACKENDS = ["agents_app.signin.PasswordBackend"]

# People sign in by their address. An account that was made with a plain name, on the command line, signs in by that.
ACCOUNT_ADAPTER = "agents_app.signin.AccountAdapter"
ACCOUNT_FORMS = {"login": "agents_app.views.forms.SignInForm"}
ACCOUNT_LOGIN_METHODS = {"email", "username"}
ACCOUNT_SIGNUP_FIELDS = ["email*", "password1*"]
ACCOUNT_EMAIL_VERIFICATION = "none"  # the invitation went to the address
ACCOUNT_LOGOUT_REDIRECT_URL = LOGIN_URL
ACCOUNT_SESSION_REMEMBER = True
# Failures are counted by network address: ten a minute, and five in five minutes for one account. So who guesses waits, and the
# account's owner elsewhere does not. `account_failed` is over all addresses together; a browser that has been signed in to the
# account before is not held up by it.
ACCOUNT_RATE_LIMITS = {
    "login": "30/m/ip",
    "login_failed": "10/m/ip,5/300s/key",
    "account_failed": "100/h/key",
    "reset_password": "20/m/ip,5/300s/key",
}

#: Whom the site asks for a second factor: nobody, who operates it (ops and admins), or everybody.
SECOND_FACTOR = env.choice("SECOND_FACTOR", "nobody", ("nobody", "ops", "everybody"))
SECOND_FACTOR_OIDC = env.boolean("SECOND_FACTOR_OIDC", False)
MFA_ADAPTER = "agents_app.accounts.second_factor.Adapter"
MFA_FORMS = {"authenticate": "agents_app.views.second_factor.CodeForm"}
MFA_TOTP_TOLERANCE = 1  # a code of the half minute before or after counts too: clocks differ
MFA_RECOVERY_CODE_COUNT = 10
#: Off in the tests, where one more write at a session's first page would be counted with the page's own.
SESSIONS_SEEN = True

OIDC_ISSUER = env.text("OIDC_ISSUER").rstrip("/")
OIDC_CLIENT_ID = env.text("OIDC_CLIENT_ID")
OIDC_CLIENT_SECRET = env.text("OIDC_CLIENT_SECRET")
OIDC_NAME = env.text("OIDC_NAME", "single sign-on")
_oidc = {"OIDC_ISSUER": OIDC_ISSUER, "OIDC_CLIENT_ID": OIDC_CLIENT_ID, "OIDC_CLIENT_SECRET": OIDC_CLIENT_SECRET}
if any(_oidc.values()) and not all(_oidc.values()):
    _missing = next(name for name, value in _oidc.items() if not value)
    raise ImproperlyConfigured(f"{_missing}: not set. Single sign-on needs {', '.join(_oidc)}; unset all for none.")
if OIDC_ISSUER and not (
    OIDC_ISSUER.startswith("https://") or urlsplit(OIDC_ISSUER).hostname in ("127.0.0.1", "localhost", "::1")
):
    raise ImproperlyConfigured("OIDC_ISSUER: must be an https:// address; plain http is for this machine's own alone.")
SCIM = env.boolean("SCIM", False)
SOCIALACCOUNT_ADAPTER = "agents_app.signin.SocialAccountAdapter"
PASSWORD_RESET_TIMEOUT = env.integer("INVITATION_DAYS", 7, low=1, high=365) * 86_400

# Never printed: whoever reads the log would set the passwords of those who ask for a link.
EMAIL_BACKEND = (
    "django.core.mail.backends.smtp.EmailBackend"
    if env.text("EMAIL_HOST")
    else "django.core.mail.backends.dummy.EmailBackend"
)
EMAIL_HOST = env.text("EMAIL_HOST")
EMAIL_PORT = env.integer("EMAIL_PORT", 587, low=1, high=65535)
EMAIL_HOST_USER = env.text("EMAIL_HOST_USER")
EMAIL_HOST_PASSWORD = env.text("EMAIL_HOST_PASSWORD")
EMAIL_USE_TLS = env.boolean("EMAIL_USE_TLS", True)
EMAIL_TIMEOUT = env.integer("EMAIL_TIMEOUT", 10, low=1, high=120)
DEFAULT_FROM_EMAIL = env.text("DEFAULT_FROM_EMAIL", "routerweb@localhost")
