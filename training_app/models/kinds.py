"""The name of the one kind that always is there; `versions.kinds` has the table of all."""

#: Which agents a query needs: the version that answers /api/route/.
SET_ROUTER = "set_router"
