// Keys go by `keyPlace`, so that every layout works; a switch turns them off. The keys of commands can be changed; what somebody chose
// stays in this browser.

import { composes, keyPlace } from "./key_place.js";
import { shown } from "./label_form.js";

const DEFAULTS = {
  submit: "Enter", accept: "KeyA", unsure: "KeyU", skip: "KeyS", undo: "KeyZ", note: "KeyN", describe: "KeyD", guidelines: "KeyG", history: "KeyH", list: "KeyL", marks: "Quote", similar: "Equal", narrow: "Comma",
};
// What a command may be given: letters, space, enter, and signs that stand on every keyboard.
const MAY_BE = /^(?:Key[A-Z]|Space|Enter|Backspace|Tab|Minus|Equal|Semicolon|Quote|Comma|BracketLeft|BracketRight|Backquote|Backslash|F[1-9])$/;
const SHOWN = { Enter: "⏎", Space: "␣", Backspace: "⌫", Tab: "⇥", Minus: "-", Equal: "=", Semicolon: ";", Quote: "'", Comma: ",", BracketLeft: "[", BracketRight: "]", Backquote: "`", Backslash: "\\" };
const inWords = (code) => SHOWN[code] ?? code.replace(/^Key/, "");

const digit = (code) => /^(?:Digit|Numpad)(\d)$/.exec(code)?.[1];
const character = (code) => /^Key([A-Z])$/.exec(code)?.[1] ?? digit(code);

export function listen(store, commands) {
  const toggle = document.getElementById("lb-keys-on");
  const off = store + ".keys-off";
  toggle.checked = localStorage.getItem(off) !== "1";
  toggle.addEventListener("change", () => (toggle.checked ? localStorage.removeItem(off) : localStorage.setItem(off, "1")));

  const own = store.replace(/^(rw\.label\.\d+).*/, "$1") + ".keys"; // of the person, in every pool
  let keys = { ...DEFAULTS, ...JSON.parse(localStorage.getItem(own) ?? "{}") };
  let asking = null; // the button whose command is being given another key

  const commandOf = (pressed) => Object.keys(keys).find((name) => keys[name] === pressed);

  // The keys stand on the buttons and in the list as they are now.
  function drawKeys() {
    for (const sign of document.querySelectorAll("[data-lb] > kbd, .lb-rebind > kbd")) {
      const name = sign.parentElement.dataset.lb ?? sign.parentElement.dataset.command;
      if (keys[name]) sign.textContent = inWords(keys[name]);
    }
    const unsure = document.querySelector(".lb-unsure > kbd");
    if (unsure) unsure.textContent = inWords(keys.unsure);
  }

  function give(name, pressed) {
    const said = document.getElementById("lb-rebind-said");
    const agent = rowOf(character(pressed))?.querySelector(".lb-name").textContent;
    if (!MAY_BE.test(pressed)) said.textContent = said.dataset.refused;
    else if (agent) said.textContent = `${inWords(pressed)}: ${agent}`;
    else {
      const other = commandOf(pressed);
      if (other && other !== name) keys[other] = keys[name]; // the two change places
      keys[name] = pressed;
      localStorage.setItem(own, JSON.stringify(keys));
      said.textContent = "";
    }
    drawKeys();
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest(".lb-rebind");
    if (button) {
      asking = button;
      button.querySelector("kbd").textContent = "…";
    } else if (event.target.closest("#lb-rebind-reset")) {
      keys = { ...DEFAULTS };
      localStorage.removeItem(own);
      drawKeys();
    }
  });

  let code = null; // the two letters of an agent, while they are being typed

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || composes(event)) return;
    const dialog = document.querySelector("dialog[open]");
    if (dialog) return inDialog(event, dialog);
    if (event.target.id === "lb-filter") return inFilter(event);
    if (event.target.name === "note" && ["Enter", "NumpadEnter", "Escape"].includes(event.code)) {
      event.preventDefault();
      return event.target.blur();
    }
    if (event.target.matches("input:not([type=checkbox]), textarea, select") || !toggle.checked) return;
    // A button or link that has the focus keeps its own keys. One in a dialog that has just closed has the focus until the next frame
    // is drawn, and nobody means it any more.
    const focused = event.target.matches("a, button, summary") && !event.target.closest("dialog");
    if (focused && ["Enter", "NumpadEnter", "Space"].includes(event.code)) return;
    const command = meaning(event);
    if (!command) return;
    event.preventDefault();
    command();
  });

  function meaning(event) {
    if (code !== null) return spelled(event);
    const number = event.shiftKey ? undefined : digit(event.code);
    if (number === "0") return commands.none;
    if (number) return () => bySign(number);
    if (event.code === "NumpadEnter") return commands.submit;
    if (event.key === "?") return commands.help;
    if (event.key === ".") return () => spell(""); // on a Turkish keyboard it stands where others have the slash
    if (event.code === "Slash" || event.key === "/") return event.shiftKey && event.key !== "/" ? commands.help : focusFilter;
    if (event.code === "Period" || event.code === "NumpadDecimal") return () => spell("");
    if (event.shiftKey && !["=", "'"].includes(event.key)) return undefined;
    return named(event);
  }

  function named(event) {
    const place = keyPlace(event);
    const letter = /^Key([A-Z])$/.exec(place)?.[1];
    const name = commandOf(place);
    return name ? commands[name] : letter && rowOf(letter) ? () => bySign(letter) : undefined;
  }

  const rowOf = (sign) =>
    [...(commands.item()?.querySelectorAll(".lb-row[data-agent]") ?? [])].find((one) => one.querySelector("kbd").textContent === sign);

  function bySign(sign) {
    const row = rowOf(sign);
    if (row) commands.toggle(row.dataset.agent);
  }

  // `.` and then the agent's two letters; Escape or Backspace gives up.
  function spelled(event) {
    if (event.code === "Escape" || event.code === "Backspace") return () => spell(null);
    const next = character(keyPlace(event));
    if (!next) return undefined;
    if (code.length === 0) return () => spell(next);
    const whole = code + next;
    return () => {
      spell(null);
      const row = commands.item()?.querySelector(`.lb-row[data-code="${whole}"]`);
      if (row) commands.toggle(row.dataset.agent);
      else commands.noSuch(whole);
    };
  }

  function spell(letters) {
    code = letters;
    let sign = document.getElementById("lb-spelling");
    if (letters === null) return sign?.remove();
    if (!sign) {
      sign = Object.assign(document.createElement("output"), { id: "lb-spelling" });
      document.getElementById("lb").append(sign);
    }
    sign.textContent = "." + letters + "_";
  }

  function focusFilter() {
    document.getElementById("lb-filter")?.focus();
  }

  function inFilter(event) {
    if (event.code === "Escape") {
      commands.filter("");
      event.target.blur();
    } else if (event.code === "Enter" || event.code === "NumpadEnter") {
      const row = event.target.value.trim() && shown(commands.item())[0];
      if (row) commands.toggle(row.dataset.agent);
      commands.filter("");
      event.target.blur();
    } else return;
    event.preventDefault();
  }

  function inDialog(event, dialog) {
    if (asking) {
      event.preventDefault();
      const name = asking.dataset.command;
      asking = null;
      return event.code === "Escape" ? drawKeys() : give(name, keyPlace(event));
    }
    if (dialog.matches(".lb-similar")) return inSimilar(event, dialog);
    if (dialog.id !== "lb-skip") return;
    const typing = event.target.id === "lb-remark";
    const number = typing ? undefined : digit(event.code);
    const reason = number && dialog.querySelectorAll(".lb-reasons [data-reason]")[Number(number) - 1];
    if (reason) commands.giveReason(reason);
    else if (typing && event.code === "Enter") commands.giveReason(dialog.querySelector('[data-reason=""]'));
    else return;
    event.preventDefault();
  }

  // Digits tick, `A` ticks all, Enter sends; a button that has the focus keeps its own keys.
  function inSimilar(event, dialog) {
    const number = event.shiftKey ? undefined : digit(event.code);
    if (event.target.matches("button") && ["Enter", "NumpadEnter", "Space"].includes(event.code)) return;
    if (["Enter", "NumpadEnter"].includes(event.code)) commands.sendSimilar();
    else if (!toggle.checked) return;
    else if (number > 0) commands.tick(Number(number) - 1);
    else if (keyPlace(event) === "KeyA") commands.tickAll();
    else if (keyPlace(event) === keys.similar) dialog.close();
    else return;
    event.preventDefault();
  }

  drawKeys();
  return drawKeys;
}
