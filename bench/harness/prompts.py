"""Prompts. Token ids where lengths must be exact and the same for every peer, texts where words matter."""
import json
import random

from . import process

WORDS = ("river stone lantern harbour winter copper letter garden mountain signal orchard captain mirror thunder "
         "village basket feather island kitchen whistle").split()
SENTENCE = "The keeper of the lighthouse wrote down number {} in a book that nobody would read for years. "


class Prompts:
    """Prompts of token ids, drawn with a seed from the ids of plain words; two prompts share nothing worth caching."""

    def __init__(self, quern, model, seed):
        printed, _, _ = process.run([quern, "tokenize", model, "--no-special", "--json", "--text", " ".join(WORDS)])
        self._ids = sorted(set(json.loads(printed)["ids"]))
        self._seed = seed
        self._drawn = 0

    def ids(self, tokens):
        self._drawn += 1
        draw = random.Random(self._seed * 1_000_003 + self._drawn)
        return [draw.choice(self._ids) for _ in range(tokens)]

    def many(self, count, tokens):
        return [self.ids(tokens) for _ in range(count)]


def texts(count, words, seed=1):
    """Texts of so many words and a number in front."""
    draw = random.Random(seed)
    return [" ".join([str(i), *(draw.choice(WORDS) for _ in range(words))]) for i in range(count)]


def document(sentences, start=0):
    return "".join(SENTENCE.format(start + i) for i in range(sentences))
