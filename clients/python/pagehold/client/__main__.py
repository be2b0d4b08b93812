"""`python -m pagehold.client` is the `pagehold` command, also where nothing is installed."""

from pagehold.client.cli import main

main()
