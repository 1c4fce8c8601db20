// Keys go by their place on the keyboard (`event.code`), so that a Cyrillic or French layout works; a switch turns them off.

import { shown } from "./label_form.js";

const LETTERS = { KeyA: "accept", KeyD: "describe", KeyU: "unsure", KeyZ: "undo", KeyS: "skip", KeyG: "guidelines", KeyH: "history", KeyN: "note" };

const digit = (code) => /^(?:Digit|Numpad)(\d)$/.exec(code)?.[1];
const character = (code) => /^Key([A-Z])$/.exec(code)?.[1] ?? digit(code);

export function listen(store, commands) {
  const toggle = document.getElementById("lb-keys-on");
  const off = store + ".keys-off";
  toggle.checked = localStorage.getItem(off) !== "1";
  toggle.addEventListener("change", () => (toggle.checked ? localStorage.removeItem(off) : localStorage.setItem(off, "1")));

  let code = null; // the two letters of an agent, while they are being typed

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
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
    const own = event.target.matches("a, button, summary") && !event.target.closest("dialog");
    if (own && ["Enter", "NumpadEnter", "Space"].includes(event.code)) return;
    const command = meaning(event);
    if (!command) return;
    event.preventDefault();
    command();
  });

  function meaning(event) {
    if (code !== null) return spelled(event);
    const number = event.shiftKey ? undefined : digit(event.code);
    if (number === "0") return commands.none;
    if (number) return () => byDigit(number);
    if (event.code === "Enter" || event.code === "NumpadEnter") return commands.submit;
    if (event.key === "?") return commands.help;
    if (event.code === "Slash" || event.key === "/") return event.shiftKey && event.key !== "/" ? commands.help : focusFilter;
    if (event.code === "Period" || event.code === "NumpadDecimal") return () => spell("");
    return event.shiftKey ? undefined : commands[LETTERS[event.code]];
  }

  function byDigit(number) {
    const row = [...(commands.item()?.querySelectorAll(".lb-row[data-agent]") ?? [])].find(
      (one) => one.querySelector("kbd").textContent === number,
    );
    if (row) commands.toggle(row.dataset.agent);
  }

  // `.` and then the agent's two letters; Escape or Backspace gives up.
  function spelled(event) {
    if (event.code === "Escape" || event.code === "Backspace") return () => spell(null);
    const next = character(event.code);
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
    if (dialog.id !== "lb-skip") return;
    const typing = event.target.id === "lb-remark";
    const number = typing ? undefined : digit(event.code);
    const reason = number && dialog.querySelectorAll(".lb-reasons [data-reason]")[Number(number) - 1];
    if (reason) commands.giveReason(reason);
    else if (typing && event.code === "Enter") commands.giveReason(dialog.querySelector('[data-reason=""]'));
    else return;
    event.preventDefault();
  }
}
