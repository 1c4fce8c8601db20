"""The names of this package's kinds of model."""

#: Which agent is called next, and when to stop: the version that decides for /api/orchestrate/.
ORCHESTRATOR = "orchestrator"
#: Which backend runs an agent: the version that estimates their success for /api/route/.
BACKEND_CHOOSER = "backend_chooser"
