"""Tokenizers: round trips, merges against an independent walk, special tokens, the vocabulary that a module reads."""

import struct
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weei_core.errors import Invalid
from weei_core.generator.tokenizers import Tokenizer

LINES = [f"{a}+{b}={a + b}<EOS>\n" for a in range(0, 100, 3) for b in range(0, 100, 7)]
LETTERS = st.text("ab1+=é€😀\n", max_size=40)
WORDS = st.lists(st.sampled_from(["a", "b", "ab", "é", "😀", "1+1=2", "<EOS>", "<E", "OS>", "<EOS>>", "\n"])).map(
    "".join
)


def trained(texts, kind, base="characters", merges=20, end_token="<EOS>"):
    merges = merges if kind == "bpe" else 0
    return Tokenizer.train(texts, kind, merges, ["<EOS>>"], end_token=end_token, base=base)


@pytest.mark.parametrize(
    "kind, base", [("bytes", "bytes"), ("characters", "characters"), ("bpe", "characters"), ("bpe", "bytes")]
)
@given(texts=st.lists(st.one_of(LETTERS, WORDS), min_size=1, max_size=8))
@settings(deadline=None, max_examples=60)
def test_decoding_gives_back_what_was_encoded(kind, base, texts):
    tokenizer = trained(texts, kind, base)
    for text in texts:
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == text
        assert b"".join(tokenizer.tokens[token] for token in ids) == text.encode()
    ids, lengths = tokenizer.encode_many(texts)
    assert ids.tolist() == [token for text in texts for token in tokenizer.encode(text)]
    assert lengths.tolist() == [len(tokenizer.encode(text)) for text in texts]


def walked(texts: list[str], count: int) -> list[tuple[int, int]]:
    """Byte-pair encoding as it is told: count all pairs, join the most frequent, of equals the smallest ids."""
    coded = [list(text.encode()) for text in texts]
    merges: list[tuple[int, int]] = []
    while len(merges) < count:
        pairs = Counter(pair for ids in coded for pair in pairwise(ids))
        best = min(pairs, key=lambda pair: (-pairs[pair], pair), default=None)
        if best is None or pairs[best] < 2:
            break
        coded = [joined(ids, best, 256 + len(merges)) for ids in coded]
        merges.append(best)
    return merges


def joined(ids, pair, result):
    out, i = [], 0
    while i < len(ids):
        if tuple(ids[i : i + 2]) == pair:
            out.append(result)
            i += 2
        else:
            out.append(ids[i])
            i += 1
    return out


@given(texts=st.lists(st.text("aab1", max_size=60), max_size=5), count=st.integers(1, 12))
@settings(deadline=None, max_examples=150)
def test_merges_are_those_of_the_plain_algorithm(texts, count):
    tokenizer = Tokenizer.train(texts, "bpe", count, base="bytes")
    expected = walked(texts, count)
    assert [merge[:2] for merge in tokenizer.merges] == expected
    assert [merge[2] for merge in tokenizer.merges] == list(range(256, 256 + len(expected)))
    for text in ["aaaa1aab", *texts]:
        ids = list(text.encode())
        for rank, pair in enumerate(expected):
            ids = joined(ids, pair, 256 + rank)
        assert tokenizer.encode(text) == ids


def test_ties_go_to_the_smallest_ids():
    assert Tokenizer.train(["cd", "ab", "cd", "ab"], "bpe", 2).tokens[-2:] == (b"ab", b"cd")


def test_merges_never_cross_special_tokens_or_the_ends_of_texts():
    tokenizer = Tokenizer.train(LINES, "bpe", 200, end_token="<EOS>")
    assert all(b"<" not in token for token in tokenizer.tokens if token != b"<EOS>")
    assert tokenizer.cut("37+48=85<EOS>\n")[-2:] == ["<EOS>", "\n"]
    assert Tokenizer.train(["ab", "ab", "ba"], "bpe", 9).merges == ((0, 1, 2),)


def test_the_longest_special_token_is_found_first():
    tokenizer = Tokenizer.train(["x"], "characters", 0, ["<", "<EOS>", "<EOS><"], alphabet="EOS>")
    assert tokenizer.cut("<EOS><EOS>x<<EOS>") == ["<EOS><", "E", "O", "S", ">", "x", "<", "<EOS>"]


def test_the_vocabulary_without_merges_has_one_token_for_each_character():
    tokenizer = Tokenizer.train(LINES, "bpe", 0, end_token="<EOS>")
    assert tokenizer.tokens == (*(c.encode() for c in "\n+0123456789="), b"<EOS>")
    assert tokenizer.cut("37+48=85<EOS>\n") == ["3", "7", "+", "4", "8", "=", "8", "5", "<EOS>", "\n"]
    assert tokenizer.tokens[tokenizer.end_token] == b"<EOS>"


def test_a_part_of_a_character_is_shown_by_its_bytes():
    assert Tokenizer.train([], "bytes").cut("é") == ["\\xc3", "\\xa9"]
    assert Tokenizer.train([], "bytes").decode([0xC3]) == "\ufffd"


def test_what_the_vocabulary_lacks_is_refused():
    with pytest.raises(Invalid, match=r'no token for "é" \(U\+00E9\)'):
        Tokenizer.train(["abc"], "characters").encode("abé")
    for kind in ("bytes", "characters"):
        with pytest.raises(Invalid, match=r"lone surrogate U\+D800"):
            Tokenizer.train(["abc"], kind, 0, ["<EOS>"]).encode("a\ud800")


def test_a_vocabulary_of_too_many_tokens_is_refused():
    with pytest.raises(Invalid, match="at most 65536 tokens; found 70000 characters, 0 special tokens and 0 merges"):
        Tokenizer.train(["".join(map(chr, range(0x10000, 0x10000 + 70_000)))], "characters")


def test_the_same_texts_give_the_same_vocabulary():
    assert trained(LINES, "bpe", merges=80).blob() == trained(iter(LINES), "bpe", merges=80).blob()


def read(blob: bytes):
    kind, count, merges, specials = struct.unpack_from("<4I", blob)
    table = np.frombuffer(blob, "<u4", 2 * count, 16).reshape(count, 2)
    merged = np.frombuffer(blob, "<u4", 3 * merges, 16 + 8 * count).reshape(merges, 3)
    special = np.frombuffer(blob, "<u4", specials, 16 + 8 * count + 12 * merges)
    return kind, [blob[at : at + size] for at, size in table.tolist()], merged.tolist(), special.tolist()


@pytest.mark.parametrize("kind, number", [("bytes", 0), ("characters", 1), ("bpe", 2)])
def test_the_vocabulary_holds_all_of_the_tokenizer(kind, number):
    tokenizer = trained(LINES, kind)
    assert read(tokenizer.blob()) == (
        number,
        list(tokenizer.tokens),
        [list(merge) for merge in tokenizer.merges],
        list(tokenizer.specials),
    )
    assert [tokenizer.tokens[special] for special in tokenizer.specials] == [b"<EOS>>", b"<EOS>"]
