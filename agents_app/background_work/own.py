"""The small pieces of work that this package leaves to the workers, and what it does by the clock."""

from collections.abc import Sequence

from agents_app.accounts import mail
from agents_app.background_work.work import Work, by_the_clock

DAY = 24 * 60


def work() -> Sequence[Work]:
    """For the hook `background_work`. Jobs that hold an address are not kept."""
    return (
        Work("mail_link", mail.mail_link, kept=False),
        Work("mail_reset", mail.mail_reset, kept=False),
        by_the_clock("agents_app.health.check_all", "Health checks of agents", 1),
        by_the_clock("agents_app.accounts.sessions.prune", "Forget sessions that have run out", DAY),
        by_the_clock("agents_app.sources.catalog.look_all", "Look for changed agent cards and MCP servers", DAY),
        by_the_clock("agents_app.archive.purge_due", "Delete for good the pools that were deleted 30 days ago", DAY),
        by_the_clock("agents_app.background_work.work.prune", "Forget background jobs that were done a week ago", DAY),
    )
