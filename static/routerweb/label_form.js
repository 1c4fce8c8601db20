// One item's form: what is chosen in it, as fields and in words, and which of its rows are shown. Nothing here knows the server.

export function chosen(form) {
  return {
    agents: [...form.querySelectorAll('[name="agent"]:checked')].map((box) => box.value).sort(),
    none: form.elements.none.checked,
    unsure: form.elements.unsure.checked,
    note: form.elements.note.value.trim(),
  };
}

export function choose(form, choice) {
  for (const box of form.querySelectorAll('[name="agent"]')) box.checked = choice.agents.includes(box.value);
  form.elements.none.checked = choice.none;
  form.elements.unsure.checked = choice.unsure;
  form.elements.note.value = choice.note ?? "";
}

export const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

// What is suggested, as a choice; null where nothing is, as on a blind item.
export function suggestion(form) {
  if (form.dataset.suggested === "-") return null;
  const agents = form.dataset.suggested ? form.dataset.suggested.split(",") : [];
  return { agents, none: agents.length === 0 };
}

// Whether the key that submits would accept the suggestion too: nobody has touched the choice, and it is no question about one agent.
export function waitsForOneKey(form) {
  const { agents, none } = chosen(form);
  return !agents.length && !none && form.dataset.touched === undefined && form.dataset.only === undefined && suggestion(form) !== null;
}

// The choice as the fields that the server reads, with `more` behind them.
export function fields(form, more = {}) {
  const found = [["asked", form.elements.asked.value], ["base", form.elements.base.value]];
  const { agents, none, unsure, note } = chosen(form);
  for (const agent of agents) found.push(["agent", agent]);
  if (none) found.push(["none", "1"]);
  if (unsure) found.push(["unsure", "1"]);
  if (note) found.push(["note", note]);
  for (const [name, value] of Object.entries(more)) found.push([name, String(value)]);
  return found;
}

// A version of the choice as a person reads it; `form` knows the agents' names where the version does not.
export function inWords(version, form, words) {
  const names = version.names ?? version.required.map((agent) => form?.querySelector(`[data-agent="${agent}"] .lb-name`)?.textContent ?? String(agent));
  const set = version.none ? words.none : names.join(", ") || words.nothing;
  const said = version.unsure ? `${set} (${words.unsure})` : set;
  return version.note ? `${said} – ${version.note}` : said;
}

// The agents that are chosen, as chips beside None: a press takes one back.
export function drawChosen(form, words) {
  const sends = form.querySelector(".lb-send");
  const together = form.querySelectorAll('[name="similar"]:checked').length;
  if (sends) sends.textContent = together ? words.submitMany.replace("%n", together + 1) : waitsForOneKey(form) ? words.acceptAndSubmit : words.submit;
  const list = form.querySelector("#lb-chosen");
  if (!list) return;
  const chips = [...form.querySelectorAll('[name="agent"]:checked')].map((box) => {
    const row = box.closest(".lb-row");
    const chip = Object.assign(document.createElement("button"), { type: "button", className: "rw-agent lb-chip" });
    chip.dataset.unchoose = box.value;
    chip.style.setProperty("--hue", row.querySelector("label").style.getPropertyValue("--hue"));
    const code = document.createElement("b");
    code.textContent = row.dataset.code;
    const name = row.querySelector(".lb-name").textContent;
    chip.setAttribute("aria-label", words.remove.replace("%name", name));
    chip.append(code, name);
    const item = document.createElement("li");
    item.append(chip);
    return item;
  });
  list.replaceChildren(...chips);
}

// How well a row fits a word that was typed: 0 begins its name or code, 1 begins another word of it, 2 stands within one, 3 and 4
// the first two with a slip of the finger; none of these is Infinity.
function fit(words, word) {
  const begins = words.findIndex((one) => one.startsWith(word));
  if (begins >= 0) return begins < 2 ? 0 : 1;
  if (words.some((one) => one.includes(word))) return 2;
  const slips = word.length >= 8 ? 2 : word.length >= 4 ? 1 : 0;
  const near = slips ? words.findIndex((one) => slipsBetween(word, one.slice(0, word.length + slips)) <= slips) : -1;
  return near < 0 ? Infinity : near < 2 ? 3 : 4;
}

// Letters added, left out, changed or swapped that lead from what was typed to the nearest beginning of a word (optimal string
// alignment).
function slipsBetween(typed, word) {
  let before = [];
  let last = [...Array(word.length + 1).keys()];
  for (let i = 1; i <= typed.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= word.length; j += 1) {
      row[j] = Math.min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (typed[i - 1] !== word[j - 1]));
      if (i > 1 && j > 1 && typed[i - 1] === word[j - 2] && typed[i - 2] === word[j - 1]) row[j] = Math.min(row[j], before[j - 2] + 1);
    }
    [before, last] = [last, row];
  }
  return Math.min(...last);
}

// Only the rows that fit are shown, the best first; a row keeps its digit. Rows that fit but for a slip stand in only where none fits.
export function filter(form, text) {
  const box = form.querySelector("#lb-filter");
  if (box && box.value !== text) box.value = text;
  const wanted = text.trim().toLowerCase().split(/\s+/).filter(Boolean);
  const list = form.querySelector(".lb-rows");
  const rows = [...list.querySelectorAll(".lb-row[data-agent]")];
  const fits = rows.map((row) => {
    const words = row.dataset.find.split(/[\s,.;:()/]+/);
    return wanted.reduce((worst, word) => Math.max(worst, fit(words, word)), 0);
  });
  const most = Math.min(...fits) < 3 ? 2 : 4;
  rows.forEach((row, i) => {
    row.hidden = fits[i] > most;
    row.style.order = wanted.length ? String(fits[i]) : "";
  });
  const nothing = list.querySelector(".lb-nomatch");
  if (nothing) nothing.hidden = rows.some((row) => !row.hidden);
  if (wanted.length) list.scrollTop = 0;
}

// The rows that are shown, in the order in which they stand.
export function shown(form) {
  const rows = [...form.querySelectorAll(".lb-row[data-agent]")].filter((row) => !row.hidden);
  return rows.sort((a, b) => Number(a.style.order) - Number(b.style.order));
}

// The item, or why there is none, out of what the server drew.
export function parsed(html) {
  const holder = document.createElement("template");
  holder.innerHTML = html;
  return holder.content.querySelector("form#lb-item, section");
}
