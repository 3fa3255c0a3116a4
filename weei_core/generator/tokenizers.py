"""Tokenizers: how text becomes the ids that a transformer learns, and the vocabulary that its module carries.

Special tokens are found first, the longest of those that begin at a place, and nothing ever merges with them. What is
left is cut into base tokens, bytes or characters, which merges join in rank order.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from weei_core.errors import Invalid
from weei_core.generator import bpe
from weei_core.generator.architectures import MAX_VOCABULARY
from weei_core.generator.bpe import WALL, Ids
from weei_core.generator.request import TokenizerBase, TokenizerKind, TokenizerRequest
from weei_core.strict_json import shown

KINDS: tuple[TokenizerKind, ...] = ("bytes", "characters", "bpe")
"""The index is the kind's number in the vocabulary that the module reads."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_FIRST_SURROGATE = 0xD800
_CHARACTERS = 0x110000


class Specials:
    """The texts of special tokens, the end token among them."""

    def __init__(self, texts: Sequence[str]) -> None:
        """`texts` in the order of their ids, without repetition."""
        self.texts = tuple(texts)
        longest_first = sorted(texts, key=lambda text: (-len(text.encode()), text))
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if texts else None
        # No text read as UTF-8 holds a surrogate: each stands for one special token while the rest is cut.
        self._stand_ins = {text: chr(_FIRST_SURROGATE + index) for index, text in enumerate(texts)}

    def replaced(self, text: str) -> str:
        """`text` with one surrogate in place of each special token."""
        return self._pattern.sub(lambda found: self._stand_ins[found[0]], text) if self._pattern else text

    def characters(self, text: str) -> set[str]:
        """The characters that `text` needs beside special tokens."""
        return set(self.replaced(text)).difference(self._stand_ins.values())


@dataclass(frozen=True)
class Tokenizer:
    """`tokens`: the bytes of each, by id: base tokens, then specials, then what merges make, in rank order.

    `merges`: (left, right, result) ids. `specials`: ids, longest text first. `end_token`: one of them, or None.
    """

    kind: TokenizerKind
    tokens: tuple[bytes, ...]
    merges: tuple[tuple[int, int, int], ...]
    specials: tuple[int, ...]
    end_token: int | None

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        kind: TokenizerKind,
        merges: int = 0,
        specials: Sequence[str] = (),
        *,
        end_token: str | None = None,
        base: TokenizerBase = "characters",
        alphabet: Iterable[str] = (),
    ) -> Tokenizer:
        """Learn from `texts`, across the ends of which nothing merges. `alphabet`: characters beside those in them.

        Fewer merges than asked come out when no pair of tokens occurs twice any more. Raises Invalid when there would
        be too many tokens.
        """
        special_texts = tuple(dict.fromkeys([*specials, *([] if end_token is None else [end_token])]))
        marks = Specials(special_texts)
        by_bytes = kind == "bytes" or (kind == "bpe" and base == "bytes")
        replaced = [marks.replaced(text) for text in texts] if kind == "bpe" or not by_bytes else []
        if by_bytes:
            first = [bytes([value]) for value in range(256)]
        else:
            characters = set(alphabet).union(*replaced) - {chr(_FIRST_SURROGATE + i) for i in range(len(special_texts))}
            first = [character.encode() for character in sorted(characters)]
        known = len(first) + len(special_texts)
        if known + merges > MAX_VOCABULARY:
            raise Invalid(
                f"The vocabulary may have at most {MAX_VOCABULARY} tokens; found {len(first)} "
                f"{'bytes' if by_bytes else 'characters'}, {len(special_texts)} special tokens and {merges} merges.",
                field="tokenizer",
            )
        ids = {text: len(first) + index for index, text in enumerate(special_texts)}
        plain = cls(
            kind=kind,
            tokens=(*first, *(text.encode() for text in special_texts)),
            merges=(),
            specials=tuple(sorted(ids.values(), key=lambda i: (-len(special_texts[i - len(first)].encode()), i))),
            end_token=None if end_token is None else ids[end_token],
        )
        return plain._with_merges(replaced, merges) if kind == "bpe" and merges else plain

    @classmethod
    def of_request(cls, request: TokenizerRequest, texts: Iterable[str], alphabet: Iterable[str]) -> Tokenizer:
        return cls.train(
            texts,
            request.kind,
            request.merges,
            request.specials,
            end_token=request.end_token,
            base=request.base,
            alphabet=alphabet,
        )

    def _with_merges(self, replaced: Sequence[str], count: int) -> Tokenizer:
        ids, lengths = self._base_ids(replaced)
        ids[np.isin(ids, self.specials)] = WALL
        learned = bpe.learn(np.insert(ids, np.cumsum(lengths), WALL), count, len(self.tokens))
        tokens, merges = list(self.tokens), []
        for left, right in learned:
            merges.append((left, right, len(tokens)))
            tokens.append(tokens[left] + tokens[right])
        return Tokenizer(self.kind, tuple(tokens), tuple(merges), self.specials, self.end_token)

    @property
    def size(self) -> int:
        return len(self.tokens)

    @cached_property
    def special_texts(self) -> tuple[str, ...]:
        """In the order of their ids."""
        return tuple(self.tokens[token].decode() for token in sorted(self.specials))

    @cached_property
    def _marks(self) -> Specials:
        return Specials(self.special_texts)

    @cached_property
    def _merger(self) -> bpe.Merges:
        return bpe.Merges(self.merges)

    @cached_property
    def _has_bytes(self) -> bool:
        """Whether the base tokens are the 256 bytes. (A character above U+007F never is one byte.)"""
        return self.kind == "bytes" or (len(self.tokens) > 255 and self.tokens[255] == b"\xff")

    @cached_property
    def _ids_of_characters(self) -> Ids:
        """For every code point its id, or -1; a surrogate's is that of the special token it stands for."""
        table = np.full(_CHARACTERS, -1, np.int64)
        base_count = self.size - len(self.merges) - len(self.specials)
        if not self._has_bytes:
            for token, text in enumerate(self.tokens[:base_count]):
                table[ord(text.decode())] = token
        table[_FIRST_SURROGATE : _FIRST_SURROGATE + len(self.specials)] = sorted(self.specials)
        return table

    def encode(self, text: str) -> list[int]:
        """Raises Invalid for a character that the vocabulary lacks."""
        found: list[int] = self.encode_many([text])[0].tolist()
        return found

    def encode_many(self, texts: Sequence[str]) -> tuple[Ids, Ids]:
        """The ids of all texts one behind the other, and how many each has. Nothing merges across texts."""
        for text in texts:
            lone = _SURROGATE.search(text)
            if lone:
                raise Invalid(f"Text must be Unicode; found the lone surrogate U+{ord(lone[0]):04X}.", field="text")
        ids, lengths = self._base_ids([self._marks.replaced(text) for text in texts])
        return self._merger.apply(ids, lengths)

    def _base_ids(self, replaced: Sequence[str]) -> tuple[Ids, Ids]:
        if self._has_bytes:
            return self._base_bytes(replaced)
        codes = np.frombuffer("".join(replaced).encode("utf-32-le", "surrogatepass"), np.uint32)
        ids = self._ids_of_characters[codes]
        if len(ids) and ids.min() < 0:
            unknown = chr(int(codes[int(np.argmin(ids))]))
            raise Invalid(f"The vocabulary has no token for {shown(unknown)} (U+{ord(unknown):04X}).", field="text")
        return ids, np.array([len(text) for text in replaced], np.int64)

    def _base_bytes(self, replaced: Sequence[str]) -> tuple[Ids, Ids]:
        encoded = [text.encode("utf-8", "surrogatepass") for text in replaced]
        ids = np.frombuffer(b"".join(encoded), np.uint8).astype(np.int64)
        lengths = np.array([len(text) for text in encoded], np.int64)
        if not self.specials:
            return ids, lengths
        # A surrogate is the three bytes ED A0..BF xx, which no UTF-8 holds otherwise.
        at = np.flatnonzero(ids[:-2] == 0xED)
        at = at[ids[at + 1] >= 0xA0]
        codes = ((ids[at] & 0x0F) << 12) | ((ids[at + 1] & 0x3F) << 6) | (ids[at + 2] & 0x3F)
        kept = np.ones(len(ids), bool)
        kept[at + 1] = kept[at + 2] = False
        ids[at] = self._ids_of_characters[codes]
        counted = np.concatenate([[0], np.cumsum(kept)])
        ends = np.cumsum(lengths)
        return ids[kept], counted[ends] - counted[ends - lengths]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids`; bytes that are no whole character become U+FFFD."""
        return b"".join(self.tokens[token] for token in ids).decode(errors="replace")

    def cut(self, text: str) -> list[str]:
        """`text` token by token, for people: a part of a character is shown by its bytes, as \\xe2."""
        return self.shown(self.encode(text))

    def shown(self, ids: Iterable[int]) -> list[str]:
        return [self.tokens[token].decode(errors="backslashreplace") for token in ids]

    def blob(self) -> bytes:
        """The vocabulary as the module reads it: counts, token table, merges, specials, then the tokens' bytes.

        All numbers are u32, little-endian; offsets count from the blob's start.
        """
        counts = (KINDS.index(self.kind), self.size, len(self.merges), len(self.specials))
        text_at = 4 * (len(counts) + 2 * self.size + 3 * len(self.merges) + len(self.specials))
        sizes = np.array([len(token) for token in self.tokens], np.int64)
        offsets = text_at + np.cumsum(sizes) - sizes
        table = np.stack([offsets, sizes], axis=1)
        numbers = (table, np.array(self.merges, np.int64), np.array(self.specials, np.int64))
        parts = b"".join(part.astype("<u4").tobytes() for part in numbers)
        return struct.pack("<4I", *counts) + parts + b"".join(self.tokens)
