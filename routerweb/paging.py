"""Pages of lists that may be very long: counted up to a bound, and turned on beyond it without being counted."""

from typing import Any

from django.core.paginator import EmptyPage, Page, Paginator
from django.utils.functional import cached_property

#: Rows that are counted while somebody waits; of a longer list a page says “more than” so many.
COUNTED = 10_000
#: Pages that may be asked for; databases take no offset of any size.
MOST_PAGES = 10_000_000


class LongPage(Page):
    """A page that may lie beyond what was counted."""

    paginator: "LongPaginator"

    def has_next(self) -> bool:
        """Whether a row follows this page's."""
        if not self.paginator.more or self.number < self.paginator.num_pages:
            return super().has_next()
        return self.paginator.has_row(self.number * self.paginator.per_page)

    def next_page_number(self) -> int:
        """The number of the page that follows, counted or not."""
        return self.number + 1 if self.paginator.more else super().next_page_number()

    def end_index(self) -> int:
        """The place in the list of this page's last row, from 1 on."""
        return self.start_index() + len(self.object_list) - 1 if self.object_list else 0


class LongPaginator(Paginator):
    """Pages of a QuerySet. `count` is COUNTED at most, and `more` says whether there are more rows than that."""

    @cached_property
    def _counted(self) -> int:
        rows: Any = self.object_list
        return int(rows.order_by()[: COUNTED + 1].count())

    @cached_property
    def count(self) -> int:
        return min(self._counted, COUNTED)

    @property
    def more(self) -> bool:
        """Whether the list is longer than what was counted."""
        return self._counted > COUNTED

    def has_row(self, place: int) -> bool:
        """Whether there is a row at that place of the list, from 0 on."""
        rows: Any = self.object_list
        return bool(rows[place : place + 1].exists())

    def validate_number(self, number: Any) -> int:
        """The number of a page that there is. Raises EmptyPage and PageNotAnInteger."""
        try:
            return super().validate_number(number)
        except EmptyPage:
            wanted = int(number)
            if not self.more or not 1 <= wanted <= MOST_PAGES or not self.has_row((wanted - 1) * self.per_page):
                raise
            return wanted

    def page(self, number: Any) -> LongPage:
        """The page of that number, as `validate_number` takes it."""
        valid = self.validate_number(number)
        first, rows = (valid - 1) * self.per_page, self.object_list
        return LongPage(rows[first : first + self.per_page], valid, self)
