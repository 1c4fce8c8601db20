"""The names of the kinds that other code has to name; `versions.kinds` has the table of all."""

#: Which agents a query needs: the version that answers /api/route/.
SET_ROUTER = "set_router"
#: Which agent is called next, and when to stop: the version that decides for /api/orchestrate/.
ORCHESTRATOR = "orchestrator"
#: Which backend runs an agent: the version that estimates their success for /api/route/.
BACKEND_CHOOSER = "backend_chooser"
