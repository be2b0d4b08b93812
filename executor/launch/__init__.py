"""One command for a whole machine: `pagehold up` starts keeper, manager, engines and front doors, and ends them.

`settings` says what can be asked for, `plan` makes children of a keeper of it. `supervision` keeps the keeper, which
keeps the children; `readiness` watches what the keeper tells of them; `display` shows it. `up` ties these together,
`ending` is what `down` does and what clears away the remains of an earlier `up`. Nothing here imports torch.
"""
