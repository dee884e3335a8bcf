// Export: the cards and their texts as a table in Markdown.

import { describeDemands } from "./demands.js";
import { state, whatToSay } from "./state.js";
import { $, nameTable, percent } from "./tools.js";

function toMarkdown() {
  const cell = (text) => String(text ?? "").replace(/\s+/g, " ").replaceAll("\\", "\\\\").replaceAll("|", "\\|").trim();
  const what = whatToSay() ?? { source: "" };
  const source = what.source ?? nameTable(what.table);
  const exemplar = (card) => ({
    between: `${percent(1 - card.share)} ${card.a}; ${percent(card.share)} ${card.b}`,
    style: `house style ${card.style}`,
    plain: "none",
  })[card.kind] ?? card.text;
  const lines = state.cards.filter((card) => card.answer).map((card) => {
    const words = (test) => card.answer.words.filter(test).map((word) => word.text).join(", ");
    const leaks = words((word) => word.origin === "exemplar");
    const faults = words((word) => word.fact === "unlicensed");
    return `| ${[exemplar(card), card.similarity?.toFixed(2), card.answer.text, leaks, faults].map(cell).join(" | ")} |`;
  });
  const head = "| exemplar | similarity | text | from the exemplar only | unlicensed facts |\n|---|---:|---|---|---|";
  const demands = describeDemands().length ? `**Demands:** ${cell(describeDemands().join("; "))}\n\n` : "";
  return `**Source:** ${cell(source)}\n\n${demands}${head}\n${lines.join("\n")}\n`;
}

export function openExport() {
  const text = toMarkdown();
  $("markdown").value = text;
  URL.revokeObjectURL($("save-markdown").href);
  $("save-markdown").href = URL.createObjectURL(new Blob([text], { type: "text/markdown" }));
  $("export-dialog").showModal();
}
