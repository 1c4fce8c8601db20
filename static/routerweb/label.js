// The labeling page: keys, drafts, the next item, undo. The page works as plain forms without this; with it, no request is waited for.
import { Coming, together } from "./label_coming.js";
import { chosen, choose, drawChosen, fields, filter, inWords, parsed, same, suggestion, waitsForOneKey } from "./label_form.js";
import { listen } from "./label_keys.js";
import { List } from "./label_list.js";
import { Marks } from "./label_marks.js";
import { drawGoal, drawSignedOut, drawWaiting, fitScreen, foldsAgain } from "./label_screen.js";
import { Session } from "./label_session.js";
import { Similar } from "./label_similar.js";
import { Outbox } from "./outbox.js";

const root = document.getElementById("lb");
const stage = document.getElementById("lb-stage");
const words = document.getElementById("lb-words").dataset;
const saved = document.getElementById("lb-saved");
const writer = Math.random().toString(36).slice(2, 10) + Date.now().toString(36);
const byId = (id) => document.getElementById(id);

let form = byId("lb-item"); // the item on screen, null when there is none
let changes = []; // what was chosen before each change of this item, for undo
let past = []; // items that were sent or skipped, as they stood: undo brings them back at once
let step = 0;
let drawnAt = Date.now();
let active = Date.now();
let draftTimer = 0;
let sent = { state: "saved", waiting: 0 }; // how the outbox stands
let unsaid = ""; // what is to be said once a line for it is on the page
let missing = ""; // why the next item is not here yet: "", "fetching" (and trying again) or "signed-out"

document.documentElement.classList.add("lb-live");

// ------------------------------------------------------------------------------------------------- what is chosen

// Every change goes through here: it can be undone, it is kept in this browser at once, and it is saved within a second.
function change(edit) {
  const before = form.before ?? chosen(form);
  edit();
  const after = chosen(form);
  form.before = after;
  drawChosen(form, words);
  problem("");
  if (same(before, after)) return;
  changes.push(before);
  form.dataset.touched = "";
  drawChosen(form, words);
  if (form.dataset.only !== undefined && (after.agents.length || after.none)) return submit(); // one question, one key
  keepDraft();
}

function keepDraft() {
  localStorage.setItem(`${root.dataset.store}.draft.${form.dataset.query}`, JSON.stringify(chosen(form)));
  show("saving");
  clearTimeout(draftTimer);
  draftTimer = setTimeout(sendDraft, 250);
}

function sendDraft() {
  clearTimeout(draftTimer);
  draftTimer = 0;
  if (!form) return;
  step += 1;
  outbox.add({ kind: "draft", query: form.dataset.query, url: address("draft"), body: fields(form, { version: form.elements.version.value, writer, step }) });
}

function toggle(agent) {
  const box = form.querySelector(`[name="agent"][value="${agent}"]`);
  if (!box) return;
  change(() => {
    box.checked = !box.checked;
    if (box.checked) form.elements.none.checked = false;
  });
  box.closest("li").scrollIntoView({ block: "nearest" });
  marks.show(box.checked ? agent : null);
}

function toggleNone() {
  change(() => {
    const none = form.elements.none;
    none.checked = !none.checked;
    if (none.checked) for (const box of form.querySelectorAll('[name="agent"]')) box.checked = false;
  });
}

function accept() {
  if (form.dataset.suggested === "-") return problem(words.noSuggestion);
  change(() => choose(form, { ...chosen(form), ...suggestion(form) }));
}

// ----------------------------------------------------------------------------------------------------- sending it

const at = root.dataset.at;
const session = new Session(words.account);
const address = (what) => `${at}${form.dataset.query}/${what}/`;

function submit() {
  if (!form) return;
  const oneKey = waitsForOneKey(form);
  if (oneKey) choose(form, { ...chosen(form), ...suggestion(form) });
  const { agents, none } = chosen(form);
  if (!agents.length && !none) return problem(words.choose);
  const seconds = Math.round((Date.now() - drawnAt) / 1000);
  const key = writer + "-" + (step += 1);
  leave({ kind: "submit", query: form.dataset.query, url: address("submit"), body: [...fields(form, { key, seconds, ...(oneKey ? { one_key: 1 } : {}) }), ...similar.fields(form)] });
}

function skip(reason) {
  if (!form || !reason) return;
  leave({ kind: "skip", query: form.dataset.query, url: address("skip"), body: [["reason", reason]] });
}

// The item is on its way: the one that was fetched already takes its place.
function leave(entry) {
  clearTimeout(draftTimer);
  draftTimer = 0;
  const query = form.dataset.query;
  outbox.drop((old) => old.kind === "draft" && old.query === query);
  if (entry.kind === "submit") coming.leaveOut(similar.ticked());
  else similar.release(form);
  past.push({ form, changes, kind: entry.kind });
  past = past.slice(-50);
  form.remove();
  outbox.add(entry);
  localStorage.removeItem(`${root.dataset.store}.draft.${query}`);
  remember(query, true);
  form = null;
  advance();
}

// What left in the last minutes: a page that was drawn while it was arriving would show it once more.
function remember(query, sent) {
  const key = root.dataset.store + ".sent";
  const lately = JSON.parse(localStorage.getItem(key) ?? "[]").filter(([one, at]) => one !== query && Date.now() - at < 120000);
  localStorage.setItem(key, JSON.stringify(sent ? [...lately, [query, Date.now()]] : lately));
  return lately;
}

function undo() {
  if (form && changes.length) {
    choose(form, changes.pop());
    form.before = chosen(form);
    drawChosen(form, words);
    return keepDraft();
  }
  const last = past.pop();
  if (!last) {
    outbox.add({ kind: "undo", query: "", url: `${at}undo/`, body: [] });
    return;
  }
  putBack();
  const query = last.form.dataset.query;
  remember(query, false);
  // What has not been sent yet is not sent; what may have arrived is taken back, after it, by name.
  if (!outbox.drop((entry) => entry.query === query && entry.kind === last.kind))
    outbox.add({ kind: "undo", query, url: `${at}undo/`, body: [["query", query]] });
  place(last.form, last.changes);
  keepDraft();
}

// ------------------------------------------------------------------------------------------------------ the next item

function place(next, its = []) {
  const nothing = byId("lb-nothing");
  if (nothing) nothing.remove();
  if (form) form.remove();
  form = next;
  changes = its;
  arrived();
  stage.append(form);
  if (unsaid) problem(unsaid);
  form.before = chosen(form);
  drawnAt = Date.now();
  filter(form, "");
  const draft = localStorage.getItem(`${root.dataset.store}.draft.${form.dataset.query}`);
  if (draft && !same(JSON.parse(draft), chosen(form))) {
    choose(form, JSON.parse(draft));
    form.before = chosen(form);
    keepDraft();
  }
  drawChosen(form, words);
  drawKeys();
  beside.draw();
  document.activeElement?.blur();
  coming.fetch();
  similar.look();
}

// The item on screen waits for its turn again, with what was chosen.
function putBack() {
  if (!form) return;
  if (draftTimer) sendDraft();
  coming.putBack(form);
}

async function advance() {
  for (let wait = 500; !form; wait = Math.min(wait * 2, 8000)) {
    coming.leaveOut(outbox.entries().flatMap((entry) => [entry.query, ...together(entry)]));
    if (coming.forms.length) return place(coming.forms.shift());
    try {
      const item = await coming.fetch();
      if (item && !item.query && !coming.forms.length) {
        if (outbox.entries().length === 0) return nothing(item.html);
        await settled(); // the last answers may free what is held
      }
    } catch (error) {
      missing = error.signedOut ? "signed-out" : "fetching";
      draw();
      await new Promise((done) => setTimeout(done, wait));
    }
  }
}

function arrived() {
  missing = "";
  draw();
}

const settled = () => new Promise((done) => setTimeout(done, 400));

function nothing(html) {
  byId("lb-nothing")?.remove();
  arrived();
  stage.append(parsed(html));
  if (unsaid) problem(unsaid);
}

async function open(query) {
  const item = await coming.post(`${at}${query}/`);
  putBack();
  place(parsed(item.html));
}

// --------------------------------------------------------------------------------------------------- what comes back

function answered(entry, status, reply) {
  count(reply);
  const onScreen = form && form.dataset.query === entry.query;
  if (status === 409 && reply.theirs) return conflict(entry, reply);
  if (status === 409 && entry.kind === "submit") return resend(entry); // another submit's key: this one gets its own
  if (status >= 400) {
    const gone = entry.kind === "submit" && !onScreen ? words.goneSubmit : words.gone;
    if (onScreen || entry.kind !== "draft") problem(status === 404 || status === 410 ? gone : reply.error || words.refused);
    if (entry.kind === "submit" && !onScreen && status === 400) bringBack(entry.query, reply.error);
    return;
  }
  if (reply.left_out) problem(reply.left_out === 1 ? words.leftOutOne : words.leftOut.replace("%n", reply.left_out));
  if (entry.kind === "draft") {
    if (onScreen) {
      form.elements.version.value = reply.version;
      if (!draftTimer) localStorage.removeItem(`${root.dataset.store}.draft.${entry.query}`);
    }
  } else if (entry.kind === "undo" && !entry.query) {
    if (reply.query) remember(String(reply.query), false);
    if (reply.query) open(reply.query).catch(() => location.assign(`${at}${reply.query}/`));
    else problem(words.nothingToUndo);
  }
}

function resend(entry) {
  outbox.add({ ...entry, body: [...entry.body.filter(([name]) => name !== "key"), ["key", writer + "-" + (step += 1)]] });
}

function bringBack(query, why) {
  const index = past.findIndex((one) => one.form.dataset.query === query);
  if (index < 0) return;
  const [one] = past.splice(index, 1);
  putBack();
  place(one.form, one.changes);
  problem(why || words.refused);
}

function conflict(entry, reply) {
  const dialog = byId("lb-conflict");
  const item = form?.dataset.query === entry.query ? form : past.find((one) => one.form.dataset.query === entry.query)?.form;
  dialog.querySelector(".lb-conflict-text").textContent = item?.querySelector(".rw-query-text").textContent ?? "";
  for (const side of ["theirs", "mine"]) dialog.querySelector(`[data-side="${side}"]`).textContent = inWords(reply[side], item, words);
  dialog.oncancel = (event) => event.preventDefault(); // one of the two has to be chosen
  dialog.querySelector("form").onsubmit = (event) => {
    const { theirs, mine } = reply;
    const own = event.submitter.value === "mine";
    if (form && form === item) {
      form.elements.base.value = theirs.base;
      form.elements.version.value = theirs.version;
      const kept = own ? mine : theirs;
      choose(form, { agents: kept.required.map(String), none: kept.none, unsure: kept.unsure, note: kept.note });
      form.before = chosen(form);
      drawChosen(form, words);
      if (own) keepDraft();
      else localStorage.removeItem(`${root.dataset.store}.draft.${entry.query}`);
    } else if (own) {
      const kept = entry.body.filter(([name]) => name !== "base" && name !== "key");
      outbox.add({ ...entry, body: [...kept, ["base", theirs.base], ["key", writer + "-" + (step += 1)]] });
    }
  };
  if (!dialog.open) dialog.showModal();
}

function count(reply) {
  if (reply.narrowed !== undefined) byId("lb-narrowed").textContent = reply.narrowed.toLocaleString(document.documentElement.lang);
  if (reply.today !== undefined) drawGoal(root.dataset.store, words, reply.today);
  if (reply.today !== undefined) byId("lb-today").textContent = reply.today.toLocaleString(document.documentElement.lang);
  if (reply.left !== undefined) byId("lb-left").textContent = reply.left.toLocaleString(document.documentElement.lang);
  if (reply.others !== undefined) {
    byId("lb-others").textContent = reply.others.toLocaleString(document.documentElement.lang);
    byId("lb-others").parentElement.hidden = !reply.others;
  }
}

function show(state, waiting = 0) {
  sent = { state, waiting };
  draw();
}

// One line for two matters: whether everything is saved, and, where it is, whether the next item is being waited for.
function draw() {
  let { state, waiting } = sent;
  if (state === "saved" && draftTimer) state = "saving";
  if (state === "saved" && missing) state = missing;
  const text = { saved: words.saved, saving: words.saving, retrying: words.retrying, fetching: words.fetching, "signed-out": words.signedOut }[state];
  saved.dataset.state = state;
  const told = waiting > 1 ? `${text} · ${waiting} ${words.kept}` : text;
  if (state === "signed-out") drawSignedOut(saved, told, words);
  else saved.textContent = told;
  const away = state === "retrying" || state === "fetching";
  const answers = away ? outbox.entries().filter((entry) => entry.kind !== "draft").length : 0;
  drawWaiting(byId("lb-waiting"), away, answers, coming.forms.length, words);
}

// Between two items there is no line for it: it is said where the next one stands, or that there is none.
function problem(text) {
  const line = byId("lb-problem");
  unsaid = line ? "" : text;
  if (!line) return;
  line.textContent = text;
  line.hidden = !text;
}

// ------------------------------------------------------------------------------------------------ filter, panes, dialogs

function guidelines() {
  const hidden = document.documentElement.classList.toggle("lb-reading");
  localStorage.setItem(root.dataset.store + ".reading", hidden ? "1" : "0");
  for (const button of document.querySelectorAll('[data-lb="guidelines"][aria-expanded]')) button.setAttribute("aria-expanded", String(hidden));
}

if (location.hash === "#guidelines" && !document.documentElement.classList.contains("lb-reading")) queueMicrotask(guidelines);

// Descriptions whole, or each in one line; kept for this person.
function describe() {
  const whole = document.documentElement.classList.toggle("lb-described");
  localStorage.setItem(root.dataset.store + ".described", whole ? "1" : "0");
}

function askReason() {
  if (!form) return;
  byId("lb-remark").value = "";
  byId("lb-skip").showModal();
  byId("lb-skip").querySelector("[data-reason]").focus();
}

function giveReason(button) {
  const reason = button.dataset.reason || byId("lb-remark").value.trim();
  if (!reason) return byId("lb-remark").focus();
  byId("lb-skip").close();
  skip(reason);
}

function go(query) {
  const next = coming.take(query);
  if (!next) return open(query).catch(() => location.assign(`${at}${query}/`));
  putBack();
  place(next);
}

// A note is part of what is chosen: it is kept while it is typed.
function note() {
  if (!form) return;
  form.querySelector(".lb-own-note").open = true;
  form.elements.note.focus();
}

async function history() {
  if (!form) return;
  const dialog = byId("lb-history");
  dialog.showModal();
  const answer = await fetch(root.dataset.history.replace("/0/history/", `/${form.dataset.query}/history/`)).catch(() => null);
  byId("lb-history-body").innerHTML = answer?.ok ? await answer.text() : words.retrying;
}

const commands = {
  submit, undo, accept, guidelines, history, describe, note,
  list: () => beside.turn(),
  marks: () => marks.turn(),
  similar: () => similar.open(),
  narrow: () => {
    if (!byId("lb-narrow")) return;
    byId("lb-narrow").open = true;
    byId("lb-narrow-agent").focus();
  },
  filter: (text) => filter(form, text),
  none: () => form && toggleNone(),
  unsure: () => form && change(() => (form.elements.unsure.checked = !form.elements.unsure.checked)),
  skip: askReason,
  help: () => byId("lb-help").showModal(),
  toggle, giveReason,
  noSuch: (code) => problem(`${words.noAgent} ${code}`),
  item: () => form,
  tick: (place) => similar.tick(place), tickAll: () => similar.all(), sendSimilar: () => similar.submit(),
};
const coming = new Coming({
  at, narrow: root.dataset.narrow ?? "", session, item: () => form, sending: () => outbox.entries(), held: (one) => similar.held(one),
  came(item) {
    count(item);
    draw();
    beside.draw();
  },
});
const beside = new List({ at, store: root.dataset.store, past: () => past.map((one) => one.form), item: () => form, coming: () => coming.forms, words });
const marks = new Marks(stage, root.dataset.store, () => form, address, words);
const similar = new Similar({ item: () => form, ahead: () => coming.queries(), send: submit, post: (query, sent) => coming.post(`${at}${query}/similar/`, sent), at, words });
const drawKeys = listen(root.dataset.store, commands);

document.addEventListener("click", (event) => {
  active = Date.now();
  const reason = event.target.closest("#lb-skip [data-reason]");
  if (reason) return giveReason(reason);
  const there = event.target.closest("[data-go]");
  if (there) return go(there.dataset.go);
  const chip = event.target.closest("[data-unchoose]");
  if (chip) return toggle(chip.dataset.unchoose);
  const button = event.target.closest("[data-lb]");
  if (!button || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  commands[button.dataset.lb]();
});
stage.addEventListener("change", (event) => {
  const box = event.target;
  if (box.name === "note") return change(() => {});
  if (box.name === "similar") return;
  if (box.type !== "checkbox") return;
  box.checked = !box.checked; // as it was before: `change` compares
  if (box.name === "agent") toggle(box.value);
  else commands[box.name]();
});
stage.addEventListener("submit", (event) => {
  if (event.target !== form) return;
  event.preventDefault();
  submit();
});
stage.addEventListener("input", (event) => event.target.id === "lb-filter" && filter(form, event.target.value));
for (const kind of ["keydown", "pointermove", "scroll"]) addEventListener(kind, () => (active = Date.now()), { passive: true, capture: true });

// A sign of life each minute while somebody is at it; five idle minutes and the item is free for others.
setInterval(async () => {
  if (!form || Date.now() - active > 90000) return;
  const queries = [form.dataset.query, ...coming.queries(), ...similar.held()];
  const held = await fetch(`${at}heartbeat/`, {
    method: "POST", headers: session.headers(), body: new URLSearchParams({ queries: queries.join(",") }),
  }).then((answer) => answer.json(), () => null);
  if (!held) return;
  coming.keep(held.held.map(String));
  if (form && !held.held.includes(Number(form.dataset.query)) && queries[0] === form.dataset.query) {
    problem(words.released);
    keepDraft();
  }
}, 60000);

fitScreen(root, stage);
foldsAgain(byId("lb-narrow"));
if (localStorage.getItem(root.dataset.store + ".list") === "1") beside.turn();
drawGoal(root.dataset.store, words);
byId("lb-goal").addEventListener("change", () => {
  localStorage.setItem(root.dataset.store + ".goal", byId("lb-goal").value);
  drawGoal(root.dataset.store, words);
});
const outbox = new Outbox(root.dataset.store, session, answered, show);
const wide = matchMedia("(min-width: 64rem)").matches; // on a phone they lie over the query: open when asked for
if (wide && localStorage.getItem(root.dataset.store + ".reading") === "1") guidelines();
if (localStorage.getItem(root.dataset.store + ".described") === "1") document.documentElement.classList.add("lb-described");
if (form) {
  const waiting = outbox.entries().some((entry) => entry.query === form.dataset.query && ["submit", "skip"].includes(entry.kind));
  const lately = remember("", false).some(([query]) => query === form.dataset.query) && location.pathname === at;
  if (waiting || lately) {
    form.remove(); // it was sent before this page was drawn: it has arrived meanwhile, or is on its way again
    form = null;
    advance();
  } else place(form);
} else if (outbox.entries().length) advance();
outbox.flush();
