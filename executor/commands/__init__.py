"""Commands of the executor's part. Light to import: whatever is heavy is imported when a command runs."""

from executor.commands.engine_process import executor as executor
