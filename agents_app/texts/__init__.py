"""Words in what is stored: looked for, reported and taken out, in whatever form a column keeps them.

`matching` says what is looked for: the text of a query, or what somebody is known by. `columns` looks through the tables, by what
their columns declare to hold (`routerweb.holds`). `personal_data` finds, exports and erases what is stored of somebody.
"""
