"""The name of the kind that models, runs and requests are of where they name none."""

#: Which agents a query needs: the version that answers /api/route/.
SET_ROUTER = "set_router"
