// Check answers by keyboard, as on the label page. A switch turns single keys off.
import { composes, keyPlace } from "./key_place.js";

const OFF = "rw-check.keys-off";
const form = document.getElementById("check-form");
const keys = document.getElementById("check-keys");
keys.checked = localStorage.getItem(OFF) !== "1";
keys.addEventListener("change", () => (keys.checked ? localStorage.removeItem(OFF) : localStorage.setItem(OFF, "1")));

// "None of these" and agents exclude one another.
const none = form.querySelector('input[name="none"]');
const agents = [...form.querySelectorAll('input[name="agent"]')];
form.addEventListener("change", ({ target }) => {
  if (target === none && none.checked) for (const agent of agents) agent.checked = false;
  if (agents.includes(target) && target.checked) none.checked = false;
});

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey || composes(event) || event.repeat || !keys.checked) return;
  if (event.target.matches("input:not([type=checkbox]), textarea, select")) return;
  const enter = ["Enter", "NumpadEnter"].includes(event.code);
  if (enter && event.target.matches("a, button, summary")) return; // what has the focus keeps its own key
  const key = /^(?:Digit|Numpad|Key)(\w)$/.exec(keyPlace(event))?.[1];
  const meant = enter ? form.querySelector('button[value="answer"]') : key && document.querySelector(`[data-key="${key}"]`);
  if (!meant) return;
  event.preventDefault();
  meant.click();
});
