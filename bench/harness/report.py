"""One run as JSON, as a table in Markdown and as plots."""
import json
import re
import statistics

from . import plot
from .figures import OURS, share_of_peak


def as_json(run):
    """Everything that was measured, each turn's figure included."""
    return json.dumps({
        **run.conditions, "peers": run.versions, "absent": run.absent, "roofline": run.roofline, "notes": run.notes,
        "rows": [{"scenario": row.scenario, "case": row.sample.case, "unit": row.sample.unit, "better": row.sample.better,
                  "turns": row.values, "median": {peer: row.median(peer) for peer in row.values},
                  "ratio": {peer: row.ratio(peer) for peer in row.values if row.ratio(peer) is not None},
                  "gbps": row.gbps, "gmacs": row.gmacs, "share_of_peak": share_of_peak(row, run.roofline, run.bytes_per_mac)}
                 for row in run.rows()]}, indent=1) + "\n"


def number(value):
    if value is None:
        return ""
    if value == 0:
        return "0"
    digits = 0 if abs(value) >= 1000 else 1 if abs(value) >= 100 else 2 if abs(value) >= 10 else 3 if abs(value) >= 0.1 else 5
    return f"{value:,.{digits}f}"


def markdown(run):
    """Medians; a ratio says how many times better quern is, whichever way is better."""
    others = [peer for peer in run.versions if peer != OURS] + list(run.absent)
    columns = ["scenario", "case", "unit", OURS]
    for peer in others:
        columns += [peer, "ratio"]
    columns += ["GB/s", "GMAC/s", "of peak"]
    lines = [cells(columns), cells(["---"] * 3 + ["---:"] * (len(columns) - 3))]
    before = None
    for row in run.rows():
        line = [row.scenario if row.scenario != before else "", row.sample.case, row.sample.unit, number(row.median(OURS))]
        before = row.scenario
        for peer in others:
            ratio = row.ratio(peer)
            line += [number(row.median(peer)) or "—", "" if ratio is None else f"{ratio:.2f}"]
        share = share_of_peak(row, run.roofline, run.bytes_per_mac)
        line += [number(middle(row.gbps)), number(middle(row.gmacs)), "" if share is None else f"{100 * share:.0f} %"]
        lines.append(cells(line))
    lines += ["", "Conditions: " + ", ".join(f"{name} {value}" for name, value in run.conditions.items()) + "."]
    lines.append("Peers: " + "; ".join(f"{peer}: {version}" for peer, version in run.versions.items()) + ".")
    if run.roofline:
        lines.append("Peaks in the same run: " + ", ".join(f"{name} {value:.0f}" for name, value in run.roofline.items()) + ".")
    lines += [f"- {peer} was not measured: {reason}" for peer, reason in run.absent.items()]
    lines += [f"- {note}" for note in run.notes]
    return "\n".join(lines) + "\n"


def middle(values):
    return statistics.median(values) if values else None


def cells(words):
    return "| " + " | ".join(str(word).replace("|", "\\|").replace("\n", " ") for word in words) + " |"


def plots(run):
    """{file name: SVG}: a picture for each curve, one of bars for the rest of each scenario."""
    pictures, lines, flat = {}, {}, {}
    for row in run.rows():
        medians = {peer: row.median(peer) for peer in row.values}
        sample = row.sample
        if sample.x is not None:
            for peer, value in medians.items():
                lines.setdefault((row.scenario, sample.metric, sample.x_name, sample.unit), {}).setdefault(peer, []).append((sample.x, value))
        else:
            flat.setdefault(row.scenario, []).append((sample.case, sample.unit, medians))
    for (scenario, metric, x_name, unit), points in lines.items():
        ordered = {peer: points[peer] for peer in run.versions if peer in points}
        pictures[file_name(scenario, metric)] = plot.curves(f"{scenario}: {metric}", x_name, unit, ordered)
    for scenario, cases in flat.items():
        peers = [peer for peer in run.versions if any(peer in values for _, _, values in cases)]
        pictures[file_name(scenario)] = plot.bars(scenario, peers, cases)
    return pictures


def file_name(*words):
    return re.sub(r"[^a-z0-9]+", "-", " ".join(words).lower()).strip("-") + ".svg"


def write(run, folder):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.json").write_text(as_json(run))
    pictures = plots(run)
    (folder / "report.md").write_text(markdown(run) + "\n" + "".join(f"![{name.removesuffix('.svg')}]({name})\n" for name in pictures))
    for name, picture in pictures.items():
        (folder / name).write_text(picture)
