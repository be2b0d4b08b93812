"""Stop strings: where they are found, and what is shown before it is known."""

from hypothesis import given
from hypothesis import strategies as st

from executor.frontend.stops import StopFinder

TEXTS = st.text(alphabet="ab", max_size=30)
STOPS = st.lists(st.text(alphabet="ab", min_size=1, max_size=5), min_size=1, max_size=4)


def show(pieces: list[str], stops: list[str]) -> tuple[list[str], str | None]:
    """What is shown at each piece and at the end, and what was found."""
    finder = StopFinder(stops)
    shown = []
    for piece in pieces:
        shown.append(finder.push(piece))
        if finder.found is not None:
            return shown, finder.found
    return [*shown, finder.flush()], None


def test_a_stop_across_pieces_is_never_shown_in_part() -> None:
    assert show(["DEF", "G", "HI", "J"], ["DEFGHIJ"]) == (["", "", "", ""], "DEFGHIJ")
    assert show(["The quick br", "own", " fox"], ["own fox"]) == (["The quick br", "", ""], "own fox")


def test_what_only_began_like_a_stop_is_shown_in_the_end() -> None:
    assert show(["...Mars?"], ["\n"]) == (["...Mars?", ""], None)
    assert show(["an ", "ass", "et"], ["assistant"]) == (["an ", "", "asset", ""], None)
    assert show(["ple", "as"], ["assistant"]) == (["ple", "", "as"], None)


def test_text_behind_a_false_start_is_searched_again_from_within_it() -> None:
    assert show(["aab", "aac"], ["aabaac"]) == (["", ""], "aabaac")
    assert show(["aa", "ab"], ["aab"]) == (["", "a"], "aab")


def test_the_stop_that_is_complete_first_counts() -> None:
    assert show(["xabcd"], ["abcd", "b"]) == (["xa"], "b")
    assert show(["one STOP2 STOP1"], ["STOP1", "STOP2"]) == (["one "], "STOP2")


def test_of_two_that_end_together_the_longer_one_is_hidden() -> None:
    assert show(["my own fox"], ["fox", "own fox"]) == (["my "], "own fox")


@given(TEXTS, STOPS, st.data())
def test_the_place_does_not_depend_on_how_the_text_was_cut(text: str, stops: list[str], data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    shown, found = show(pieces, stops)
    whole, expected = show([text], stops)
    assert ("".join(shown), found) == ("".join(whole), expected)


@given(TEXTS, STOPS)
def test_it_is_found_where_a_plain_search_finds_it(text: str, stops: list[str]) -> None:
    shown, found = show(list(text), stops)
    ends = {text.find(stop) + len(stop) for stop in stops if stop in text}
    if not ends:
        assert (shown, found) == ([*shown], None)
        assert "".join(shown) == text
        return
    candidates = [stop for stop in stops if text[: min(ends)].endswith(stop)]
    assert found == max(candidates, key=len)
    assert "".join(shown) == text[: min(ends) - len(found)]
