"""`pagehold bench`: how fast everything is. It may use every part of pagehold, and no part uses it.

`serve` is a client, and uses the client's library alone; `kernels` and `baselines` need torch, `manager` the block manager.
"""
