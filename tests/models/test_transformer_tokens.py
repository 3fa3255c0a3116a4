"""The tokenizer in C gives the ids of the generator's own."""

import random
import subprocess

import pytest

from tests.c.build import compile_program
from weei_core.errors import Invalid
from weei_core.generator.tokenizers import Tokenizer

ALPHABET = "abcé😀 <>e"
SPECIALS = ["<e>", "<", "<e>e", "éa"]


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compile_program("transformer_tokens", tmp_path_factory.mktemp("tokens"))


def ids_in_c(program, tokenizer, texts, folder):
    blob = folder / "vocabulary"
    blob.write_bytes(tokenizer.blob())
    encoded = [text.encode() for text in texts]
    given = b"".join(b"%d\n" % len(text) + text for text in encoded)
    done = subprocess.run([program, blob, str(tokenizer.size)], input=given, capture_output=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, b"")
    return [
        None if line == "error" else [int(id_) for id_ in line.split()]
        for line in done.stdout.decode().split("\n")[:-1]
    ]


def expected(tokenizer, text):
    try:
        return tokenizer.encode(text)
    except Invalid:
        return None


@pytest.mark.parametrize("kind", ["bytes", "characters", "bpe by characters", "bpe by bytes"])
@pytest.mark.parametrize("specials", [[], SPECIALS], ids=["plain", "specials"])
def test_texts_are_cut_as_the_generator_cuts_them(program, tmp_path, kind, specials):
    rng = random.Random(kind)

    def text(length, alphabet=ALPHABET):
        return "".join(rng.choices(alphabet, k=length))

    name, _, base = kind.partition(" by ")
    merges = {"merges": 120, "base": base} if base else {}
    learned = [text(60, "ab") + text(60) + text(60, "aé") for _ in range(20)]
    tokenizer = Tokenizer.train(learned, name, specials=specials, alphabet=ALPHABET, **merges)
    assert len(tokenizer.merges) == (120 if base else 0)
    texts = [text(rng.randint(0, 60)) for _ in range(300)]
    texts += [text(rng.randint(0, 200), "ab") for _ in range(100)]  # runs of equals
    texts += [text(20) + "z" + text(20) for _ in range(20)] + [*learned, text(8000), "a" * 9000, ""]
    found = ids_in_c(program, tokenizer, texts, tmp_path)
    assert found == [expected(tokenizer, text) for text in texts]
    assert (None in found) == (name != "bytes" and base != "bytes")
