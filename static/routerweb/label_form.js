// One item's form: what is chosen in it, as fields and in words, and which of its rows are shown. Nothing here knows the server.

export function chosen(form) {
  return {
    agents: [...form.querySelectorAll('[name="agent"]:checked')].map((box) => box.value).sort(),
    none: form.elements.none.checked,
    unsure: form.elements.unsure.checked,
  };
}

export function choose(form, choice) {
  for (const box of form.querySelectorAll('[name="agent"]')) box.checked = choice.agents.includes(box.value);
  form.elements.none.checked = choice.none;
  form.elements.unsure.checked = choice.unsure;
}

export const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

// The choice as the fields that the server reads, with `more` behind them.
export function fields(form, more = {}) {
  const found = [["asked", form.elements.asked.value], ["base", form.elements.base.value]];
  const { agents, none, unsure } = chosen(form);
  for (const agent of agents) found.push(["agent", agent]);
  if (none) found.push(["none", "1"]);
  if (unsure) found.push(["unsure", "1"]);
  for (const [name, value] of Object.entries(more)) found.push([name, String(value)]);
  return found;
}

// A version of the choice as a person reads it; `form` knows the agents' names.
export function inWords(version, form, words) {
  const names = version.required.map((agent) => form?.querySelector(`[data-agent="${agent}"] .lb-name`)?.textContent ?? String(agent));
  const set = version.none ? words.none : names.join(", ") || words.nothing;
  return version.unsure ? `${set} (${words.unsure})` : set;
}

export function filter(form, text) {
  const box = form.querySelector("#lb-filter");
  if (box && box.value !== text) box.value = text;
  const wanted = text.trim().toLowerCase().split(/\s+/).filter(Boolean);
  const rows = form.querySelector(".lb-rows");
  rows.style.minHeight = wanted.length ? rows.style.minHeight || `${rows.offsetHeight}px` : ""; // the page stays where it is
  for (const row of rows.children) row.hidden = !wanted.every((word) => row.dataset.find.includes(word));
}

// The item, or why there is none, out of what the server drew.
export function parsed(html) {
  const holder = document.createElement("template");
  holder.innerHTML = html;
  return holder.content.querySelector("form#lb-item, section");
}
