"""The front door: takes text and tokens from clients, and streams what engines record in the ledger. Imports no torch.

A request passes through it like this::

    bytes ──► service ──► submission ──► Sequence ──► engine_link ──► engine        what is to be computed
             takes a      checks, tokenises,            │ news
             place        fills in, writes              ▼
    events ◄─ service ◄── generation ◄── recorded ◄── ledgers                       what has been recorded

A request is a `Sequence` from the moment it is sent to an engine until its end is known; any number of `Generation`s deliver
it, each to one client. Tokens come from the ledger alone, so that neither the death of an engine nor that of a door loses or
repeats one. Where what stands:

- what comes in: `service` (the methods), `admission` (places), `wire` (bytes to messages), `validation`, `prompts`,
  `parameters`, `submission`; `batch`, `attachment`, `requests` and `tokens` for the other methods
- what goes out: `generation`, `output` (with `detokenizer` and `stops`), `recorded`, `endings`, `statuses`
- who is there: `engines` and `engine_link`, `manager_link`, `ledgers`, `models`, `registry`
- what goes wrong: `recovery` (an engine is gone), `hanging_up` (a client is), `errors`, `refusals`
- the process: `process`, `server`, `door`, `settings`, `readiness`, `metrics`, `threads`
"""
