"""Models, and how busy the server is."""

from pagehold.client.commands.inference import DOOR, PATIENCE, AsJson, Door, Patience, ask, plain_of


def models(address: Door = DOOR, timeout: Patience = PATIENCE, json: AsJson = False) -> None:
    """List the models that can be asked."""
    from pagehold.client.output import Column, print_json, show, table

    found = ask(lambda client: client.models(timeout=timeout), address)
    if json:
        return print_json([plain_of(one) for one in found])
    columns = [
        *(Column("model"), Column("ready"), Column("chat"), Column("context", right=True)),
        *(Column("vocabulary", right=True), Column("revision", from_width=72)),
    ]
    rows = [(one.name, _yes(one.ready), _yes(one.chat), one.max_length, one.vocabulary, one.revision) for one in found]
    return show(table(columns, rows))


def load(address: Door = DOOR, timeout: Patience = PATIENCE, json: AsJson = False) -> None:
    """Show how busy the server is."""
    from pagehold.client.output import facts, print_json, show, span

    found = ask(lambda client: client.load(timeout=timeout), address)
    if json:
        return print_json(plain_of(found))
    pairs = [
        ("running", found.running),
        ("waiting", found.waiting),
        ("in flight at this door", found.in_flight),
        ("blocks", f"{found.blocks}, {found.free_blocks} of them free or evictable"),
        ("engine heard", "never" if found.age is None else f"{span(found.age)} ago"),
    ]
    return show(facts(pairs))


def _yes(value: bool) -> str:
    return "yes" if value else "no"
