"""Write the results of the last campaign into docs/reliability.md.

    python tests/campaign/page.py

In: JSON files in docs/results/reliability. Out: the tables between the page's marks.
"""

import json
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
RESULTS = DOCS / "results" / "reliability"
BEGIN, END = "<!-- campaign: begin -->\n", "<!-- campaign: end -->"


def write_tables(results: Path = RESULTS) -> str:
    lines = ["| stage | runs | kills | survived |", "|---|---|---|---|"]
    runs = json.loads((results / "kills.json").read_text("utf-8"))
    for stage in dict.fromkeys(one["stage"] for one in runs):
        own = [one for one in runs if one["stage"] == stage]
        counts = (sum(one[key] for one in own) for key in ("kills", "survived"))
        lines.append(f"| {' | '.join([stage, *(f'{count:,}' for count in (len(own), *counts))])} |")
    lines += ["", "| stage | cases | disk was full | survived |", "|---|---|---|---|"]
    for stage, one in json.loads((results / "full_disk.json").read_text("utf-8")).items():
        lines.append(f"| {stage} | {one['cases']} | {one['full']} | {one['survived']} |")
    damage = json.loads((results / "damage.json").read_text("utf-8"))
    statuses = damage["statuses"]
    lines += ["", "| damaged files | refused | no matter | problems |", "|---|---|---|---|"]
    problems = sum(damage["problems"].values())
    lines.append(f"| {damage['cases']:,} | {statuses.get('2', 0):,} | {statuses.get('0', 0):,} | {problems} |")
    lines += ["", "| fuzzed | runs | executions | refused | other exceptions | hangs | memory grew in a run, MiB |"]
    lines.append("|---|---|---|---|---|---|---|")
    runs = json.loads((results / "fuzz.json").read_text("utf-8"))
    for target in dict.fromkeys(one["target"] for one in runs):
        own = [one for one in runs if one["target"] == target]
        counts = (sum(one[key] for one in own) for key in ("executions", "refused"))
        found = (sum(len(one[key]) for one in own) for key in ("problems", "hangs"))
        cells = [target, len(own), *counts, *found, max(one["memory_growth_mib"] for one in own)]
        lines.append(f"| {' | '.join(cell if isinstance(cell, str) else f'{cell:,}' for cell in cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    page = DOCS / "reliability.md"
    before, _, rest = page.read_text("utf-8").partition(BEGIN)
    page.write_text(before + BEGIN + write_tables() + END + rest.partition(END)[2], "utf-8")


if __name__ == "__main__":
    main()
