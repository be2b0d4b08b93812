import pytest

from tests.kernels.contracts.noise import check_bits
from tests.kernels.contracts.sampling import SamplingContract


# The time of a token whose weight is nil is infinite, and that of one without a chance is not looked at.
@pytest.mark.filterwarnings("ignore:overflow encountered", "ignore:divide by zero", "ignore:invalid value")
class TestSamplingInterpreted(SamplingContract):
    rows, width = 8, 4500
    steps = 6


@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_token_bits_are_those_of_the_reference() -> None:
    check_bits("cpu")
