"""A GPU as the engine's device: streams of commands, recorded decode steps, and what has to be settled before it starts."""
