"""Commands of the block manager's part. Light to import: whatever is heavy is imported when a command runs."""

from blockmgr.commands.checkup import doctor as doctor
from blockmgr.commands.processes import blockmgr as blockmgr
from blockmgr.commands.processes import keeper as keeper
from blockmgr.commands.simulation import simulate as simulate
