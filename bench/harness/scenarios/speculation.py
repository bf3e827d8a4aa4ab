"""One stream that copies, with n-gram speculation and without. Copying is forced, so that any model does it: the likeliest
continuation of a list that repeats is the list."""
from ..figures import Sample
from ..process import PeerError
from ..prompts import document

OURS_ALONE = True


def measure(bench, peer):
    text = (document(12) * 3).rstrip()
    rates, answers = {}, set()
    with peer.serve(4, bench.length_max) as server:
        for method in ("off", "ngram"):
            times, answer, usage = server.stream(text, 200, speculation=method)
            answers.add(answer)
            rates[method] = (usage["completion_tokens"] - 1) / (times[-1] - times[0])
    if len(answers) != 1:
        raise PeerError("speculation changed the answer")
    yield Sample("copying without speculation", "tok/s", rates["off"])
    yield Sample("copying with n-grams", "tok/s", rates["ngram"])
    yield Sample("with / without", "times", rates["ngram"] / rates["off"])
