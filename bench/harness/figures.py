"""What a scenario measures, and how turns become one row: medians, ratios and the share of the machine's peak."""
import dataclasses
import math
import statistics

MORE, LESS = "more is better", "less is better"
OURS = "quern"


@dataclasses.dataclass(frozen=True)
class Sample:
    """One figure of one turn of one peer. Samples of a metric that differ in `x` alone are a curve."""
    metric: str
    unit: str
    value: float
    better: str = MORE
    x: float | None = None
    x_name: str = ""
    gbps: float | None = None   # weights read for it, GB/s
    gmacs: float | None = None  # multiply-adds done for it, 10^9/s

    @property
    def case(self):
        return self.metric if self.x is None else f"{self.metric}, {self.x_name} {self.x:g}"


@dataclasses.dataclass
class Row:
    """All turns of all peers of one case."""
    scenario: str
    sample: Sample  # any one of them: what they have in common
    values: dict[str, list[float]] = dataclasses.field(default_factory=dict)
    gbps: list[float] = dataclasses.field(default_factory=list)   # ours alone
    gmacs: list[float] = dataclasses.field(default_factory=list)

    def median(self, peer):
        return statistics.median(self.values[peer]) if self.values.get(peer) else None

    def ratio(self, peer):
        """How many times better than the peer we are, whichever way is better; None where nothing can be said."""
        ours, theirs = self.median(OURS), self.median(peer)
        if peer == OURS or ours is None or theirs is None:
            return None
        above, below = (ours, theirs) if self.sample.better == MORE else (theirs, ours)
        return above / below if below > 0 else None


def rows_of(samples):
    """Rows from (scenario, peer, Sample), in the order in which cases came first."""
    rows = {}
    for scenario, peer, sample in samples:
        row = rows.setdefault((scenario, sample.case, sample.unit), Row(scenario, sample))
        row.values.setdefault(peer, []).append(sample.value)
        if peer == OURS and sample.gbps is not None:
            row.gbps.append(sample.gbps)
        if peer == OURS and sample.gmacs is not None:
            row.gmacs.append(sample.gmacs)
    return list(rows.values())


def peak_of_products(roofline, bytes_per_mac):
    """GMAC/s that products of such weights could reach. Up to about a byte for each multiply-add, weights are quantised
    and products are of int8; more means 16 or 32 bits, whose products are of floats."""
    if bytes_per_mac <= 1.5:
        return max(roofline["int8_gmacs"], roofline["int8_tile_gmacs"])
    return max(roofline["bf16_gmacs"] if bytes_per_mac <= 2.5 else 0.0, roofline["f32_gmacs"])


def share_of_peak(row, roofline, bytes_per_mac):
    """The share of the nearer peak, memory or products; None for a case that has neither figure."""
    if not roofline:
        return None
    shares = []
    if row.gbps:
        shares.append(statistics.median(row.gbps) / roofline["read_gbps"])
    if row.gmacs:
        shares.append(statistics.median(row.gmacs) / peak_of_products(roofline, bytes_per_mac))
    return max(shares, default=None)


def percentile(values, share):
    """The nearest-rank percentile: the smallest value that at least this share of all does not exceed."""
    ordered = sorted(values)
    if not ordered:
        raise ValueError("no values")
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
