"""Commands of callers and operators. Light to import: whatever is heavy is imported when a command runs."""

from pagehold.client.commands.cache import explain as explain
from pagehold.client.commands.cache import prefixes as prefixes
from pagehold.client.commands.control import drain as drain
from pagehold.client.commands.control import fence as fence
from pagehold.client.commands.control import resize as resize
from pagehold.client.commands.control import undrain as undrain
from pagehold.client.commands.conversation import chat as chat
from pagehold.client.commands.events import watch as watch
from pagehold.client.commands.eviction import evict as evict
from pagehold.client.commands.figures import pool as pool
from pagehold.client.commands.generation import generate as generate
from pagehold.client.commands.in_flight import cancel as cancel
from pagehold.client.commands.in_flight import requests as requests
from pagehold.client.commands.inspection import block as block
from pagehold.client.commands.inspection import sequence as sequence
from pagehold.client.commands.listing import blocks as blocks
from pagehold.client.commands.listing import executors as executors
from pagehold.client.commands.listing import sequences as sequences
from pagehold.client.commands.pinning import pin as pin
from pagehold.client.commands.pinning import unpin as unpin
from pagehold.client.commands.serving import load as load
from pagehold.client.commands.serving import models as models
from pagehold.client.commands.verification import verify as verify
