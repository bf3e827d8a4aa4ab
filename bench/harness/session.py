"""A run: peers take turns at each scenario, figures are gathered, whatever fails becomes a note."""
import time

from .figures import OURS, rows_of
from .install import say
from .process import NotOffered, PeerError


class Run:
    def __init__(self, conditions, versions, absent):
        self.conditions = conditions        # {name: value}, for the reader
        self.versions = versions            # {peer: version}, ours first
        self.absent = absent                # {peer: why it is not measured}
        self.roofline, self.bytes_per_mac = None, 0.0
        self.notes = []
        self._samples = []

    def note(self, text):
        if text not in self.notes:
            self.notes.append(text)

    def rows(self):
        return rows_of(self._samples)

    def measure(self, bench, peers, scenarios, turns):
        """Turn by turn within a scenario, so that a change of the machine's mood meets all peers; who begins changes with the turn."""
        for name, scenario in scenarios.items():
            entered = [peer for peer in peers if peer.name == OURS or not getattr(scenario, "OURS_ALONE", False)]
            out = set()
            for turn in range(turns):
                bench.turn = turn
                for peer in order_of(entered, turn):
                    if peer.name not in out and not self._one_turn(name, scenario, bench, peer):
                        out.add(peer.name)

    def _one_turn(self, name, scenario, bench, peer):
        """False for a peer that need not be asked again."""
        begin = time.monotonic()
        try:
            for sample in scenario.measure(bench, peer):
                self._samples.append((name, peer.name, sample))
        except PeerError as error:
            self.note(f"{name}, {peer.name}: {error}")
            return not isinstance(error, NotOffered)
        except Exception as error:  # an answer in a shape that nobody expected must not lose the hours before it
            self.note(f"{name}, {peer.name}: {type(error).__name__}: {error}")
        finally:
            say(f"{name}, turn {bench.turn + 1}, {peer.name}: {time.monotonic() - begin:.0f} s")
        return True


def order_of(peers, turn):
    start = turn % len(peers) if peers else 0
    return peers[start:] + peers[:start]
