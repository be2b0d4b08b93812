"""The front door: takes text and tokens from clients, and streams what engines record in the ledger. Imports no torch.

::

    client ──► service ──► validation, tokenizer ──► engine_link ──► engine          (what is to be computed)
                  ▲                                       │
                  └── generation ◄── output ◄── ledgers ◄─┘ wake-up                   (what has been recorded)

A request is `Sequence` here from the moment it is sent to an engine until its end is known; any number of `Generation`s
deliver it, each to one client. Tokens come from the ledger alone, so that neither the death of an engine nor that of a
door loses or repeats one.
"""
