"""What is said of tokenizers before anything is trained."""

from weei_core.generator.advice import class_warnings, tokenizer_warnings
from weei_core.generator.tokenizers import Tokenizer

NOTE = "37+48=85<EOS>\n"


def codes(tokenizer, *texts):
    return [advice.code for advice in tokenizer_warnings(tokenizer, texts)]


def test_the_merges_of_the_founding_note_warn_of_both_traps():
    tokenizer = Tokenizer.train(["7+4", "7+4", "8=8", "8=8", "5<EOS>\n", "5<EOS>\n"], "bpe", 10, alphabet=NOTE)
    assert tokenizer.cut(NOTE) == ["3", "7+4", "8=8", "5<EOS>\n"]
    found = tokenizer_warnings(tokenizer, [NOTE])
    assert [advice.code for advice in found] == ["tokenizer-joins-operators", "tokenizer-glues-end"]
    assert "'7+4'" in found[0].text and r"'5<EOS>\n'" in found[1].text


def test_one_token_for_each_character_and_a_real_end_do_not_warn():
    tokenizer = Tokenizer.train([NOTE], "bpe", 0, end_token="<EOS>")
    assert tokenizer.cut(NOTE) == ["3", "7", "+", "4", "8", "=", "8", "5", "<EOS>", "\n"]
    assert codes(tokenizer, NOTE) == []


def test_merges_of_words_beside_a_real_end_do_not_warn():
    text = "the cat and the dog<EOS>\n" * 9
    assert codes(Tokenizer.train([text], "bpe", 40, end_token="<EOS>"), text) == []


def test_an_end_that_is_no_token_warns():
    assert codes(Tokenizer.train([], "bytes"), NOTE) == ["end-in-pieces"]
    assert codes(Tokenizer.train([NOTE], "characters", 0, ["<EOS>"]), NOTE) == []


def test_a_vocabulary_warns_also_of_what_the_sample_does_not_show():
    assert codes(Tokenizer.train(["7+4", "7+4"], "bpe", 2), "7") == ["tokenizer-joins-operators"]


def test_a_label_needs_records_of_each_class():
    assert class_warnings(0, 5) == class_warnings(2, 4) == ()
    assert class_warnings(3, 5)[0].code == "label-has-many-values"
