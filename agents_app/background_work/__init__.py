"""Background work: jobs and their life, small pieces of work, schedules, and the reaper that looks after dead ones."""
