"""Commands of the executor's part. Light to import: whatever is heavy is imported when a command runs."""

from executor.commands.engine_process import executor as executor
from executor.commands.front_door import door as door
from executor.commands.launching import down as down
from executor.commands.launching import up as up
