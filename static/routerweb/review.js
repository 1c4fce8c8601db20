// Review: the agents that nobody disputes are folded away until somebody wants to see them; a decision slides the next query in; all of
// it by keyboard, as on the label page. A switch turns single keys off.
import { composes, keyPlace } from "./key_place.js";

const OFF = "rw-review.keys-off";

function begin() {
  const rows = document.getElementById("rv-settled");
  const button = document.querySelector('[data-rv="fold"]');
  document.documentElement.classList.add("rv-live");
  const keys = document.getElementById("rv-keys");
  if (keys) {
    keys.checked = localStorage.getItem(OFF) !== "1";
    keys.addEventListener("change", () => (keys.checked ? localStorage.removeItem(OFF) : localStorage.setItem(OFF, "1")));
  }
  if (!button || !rows) return;
  const fold = (folded) => {
    rows.classList.toggle("rv-folded", folded);
    button.setAttribute("aria-expanded", String(!folded));
    button.textContent = folded ? button.dataset.more : button.dataset.less;
  };
  fold(true);
  button.addEventListener("click", () => fold(!rows.classList.contains("rv-folded")));
}

begin();
document.addEventListener("htmx:afterSettle", (event) => {
  if (event.detail.target?.id !== "review" && event.target.id !== "review") return;
  begin();
  document.getElementById("rv-text")?.focus({ preventScroll: true });
});

document.addEventListener("keydown", (event) => {
  const form = document.getElementById("rv-case");
  if (!form || event.ctrlKey || event.metaKey || event.altKey || composes(event) || localStorage.getItem(OFF) === "1") return;
  if (event.target.matches("input:not([type=checkbox], [type=radio]), textarea, select")) return;
  const enter = ["Enter", "NumpadEnter"].includes(event.code);
  if (enter && event.target.matches("a, button, summary")) return; // what has the focus keeps its own key
  const act = meaning(event, form, enter);
  if (!act) return;
  event.preventDefault();
  act();
});

function meaning(event, form, enter) {
  const take = (value) => form.querySelector(`.lb-bar button[name="take"]${value}`);
  const press = (button) => button && (() => button.click());
  if (enter) return press(take('[value="edit"]'));
  const digit = /^(?:Digit|Numpad)(\d)$/.exec(event.code)?.[1];
  const ticks = [...form.querySelectorAll('.rv-decision input[name="agent"]')];
  if (digit && event.shiftKey) return press([...form.querySelectorAll('.lb-bar button[name="take"]')].filter((one) => /^\d+$/.test(one.value))[digit - 1]);
  if (digit === "0") return () => ticks.forEach((tick) => (tick.checked = false));
  if (digit) return press(ticks[digit - 1]);
  if (event.shiftKey) return undefined;
  const place = keyPlace(event);
  if (place === "KeyU") return press(take('[value="union"]'));
  if (place === "KeyJ") return press(form.querySelector('.lb-bar button[formaction]'));
  if (place === "KeyO") return press(form.querySelector('[data-rv="fold"]'));
  if (place === "KeyZ") return press(document.querySelector('#rw-toasts form button, .rw-notes form button'));
  const reason = form.querySelector(`input[name="reason"][data-key="${place.replace("Key", "")}"]`);
  return reason ? () => (reason.checked = true) : undefined;
}
