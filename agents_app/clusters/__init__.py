"""Job clusters: django-q2's pusher, workers and monitor under a guard of our own, which trusts no process that could be dead."""

#: The status with which a cluster ends that is to be restarted.
AGAIN = 3
