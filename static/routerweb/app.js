// What every page shares: the CSRF token and for whom the page was drawn on HTMX requests, copy buttons, a key that sends, and a note in
// the corner that can undo.
"use strict";

(() => {
  const drawn = () => document.querySelector('meta[name="rw-csrf"]');

  document.addEventListener("htmx:configRequest", (event) => {
    if (event.detail.verb === "get" || !drawn()) return;
    event.detail.headers["X-CSRFToken"] = drawn().content;
    event.detail.headers["X-Person"] = drawn().dataset.person;
  });

  // A server answers `HX-Trigger: {"toast": {"text": "Agent retired.", "undo": "/address/to/post/to/", "undoText": "Undo"}}`.
  document.addEventListener("toast", (event) => show(event.detail));

  // Errors must be seen, not swallowed: HTMX leaves the page as it was.
  document.addEventListener("htmx:responseError", () => show({ text: document.body.dataset.rwFailed || "That did not work. Nothing was changed." }));
  document.addEventListener("htmx:sendError", () => show({ text: document.body.dataset.rwOffline || "The server does not answer. Nothing was changed." }));

  // A word of the glossary says what it means while one points at it or has tabbed to it; Escape puts that away. A finger taps once
  // for the meaning, and again for the page of all.
  let tip = null;
  const untip = () => {
    document.querySelector('[aria-describedby="rw-tip"]')?.removeAttribute("aria-describedby");
    tip?.remove();
    tip = null;
  };
  function explain(word) {
    untip();
    tip = Object.assign(document.createElement("div"), { id: "rw-tip", className: "rw-tip", textContent: word.dataset.rwTerm });
    tip.setAttribute("role", "tooltip");
    document.body.append(tip);
    const at = word.getBoundingClientRect();
    const size = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(12, Math.min(at.left, innerWidth - size.width - 12))}px`;
    tip.style.top = `${at.bottom + 6 + size.height > innerHeight ? at.top - size.height - 6 : at.bottom + 6}px`;
    word.setAttribute("aria-describedby", "rw-tip");
  }
  const term = (event) => event.target.closest?.("[data-rw-term]");
  document.addEventListener("mouseover", (event) => {
    if (term(event)) explain(term(event));
    else if (!event.target.closest?.(".rw-tip")) untip();
  });
  document.addEventListener("focusin", (event) => (term(event) ? explain(term(event)) : untip()));
  document.addEventListener("focusout", untip);
  document.addEventListener("keydown", (event) => event.key === "Escape" && untip());
  addEventListener("scroll", untip, { passive: true, capture: true });
  document.addEventListener("click", (event) => {
    const word = term(event);
    if (!word || !matchMedia("(hover: none)").matches || word.dataset.rwShown) return;
    event.preventDefault();
    explain(word);
    word.dataset.rwShown = "1";
    setTimeout(() => delete word.dataset.rwShown, 4000);
  });

  function show({ text, undo, undoText }) {
    const region = document.getElementById("rw-toasts");
    if (!region || !text) return;
    const toast = document.createElement("div");
    toast.className = "rw-toast";
    const words = document.createElement("span");
    words.textContent = text;
    toast.append(words);
    if (undo) {
      const form = document.createElement("form");
      form.method = "post";
      form.action = undo;
      const token = document.createElement("input");
      Object.assign(token, { type: "hidden", name: "csrfmiddlewaretoken", value: drawn()?.content ?? "" });
      const button = document.createElement("button");
      button.textContent = undoText || "Undo";
      form.append(token, button);
      toast.append(form);
    }
    region.replaceChildren(toast);
    // Ten seconds, and as long again as somebody points at it or holds the focus in it.
    const close = () => (toast.matches(":hover, :focus-within") ? setTimeout(close, 10000) : toast.remove());
    setTimeout(close, 10000);
  }

  // In a text of several lines Enter begins a new one: with Ctrl or ⌘ it sends the form.
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || !event.target.matches("textarea[data-rw-sends]")) return;
    event.preventDefault();
    event.target.form.requestSubmit();
  });

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-rw-copy]");
    if (!button) return;
    const source = document.getElementById(button.dataset.rwCopy);
    if (!source) return;
    let copied = false;
    try {
      await navigator.clipboard.writeText(source.textContent.trim());
      copied = true;
    } catch {
      // Without HTTPS the clipboard is closed: select the text, so that one key copies it.
      getSelection().selectAllChildren(source);
      copied = document.execCommand("copy");
    }
    if (copied) {
      const before = button.textContent;
      button.textContent = button.dataset.rwCopied || "Copied";
      setTimeout(() => (button.textContent = before), 2000);
    }
  });

  // A box that scrolls sideways (a wide table on a phone) shows it at its edge, and must itself take the focus where it holds nothing to
  // focus, for the arrow keys.
  function reachable(root) {
    for (const box of root.querySelectorAll(".rw-card, .rw-scroll, .rw-log")) {
      const sideways = box.scrollWidth > box.clientWidth + 1;
      box.classList.toggle("rw-cut", sideways && !box.matches(".rw-log"));
      const scrolls = sideways || (box.matches(".rw-log") && box.scrollHeight > box.clientHeight + 1);
      if (scrolls && !box.querySelector("a[href], button, input, select, textarea, [tabindex]")) box.tabIndex = 0;
    }
  }

  // On a phone a table that does not fit becomes a stack of rows, each cell with its column's name (app.css, .rw-stacked). A matrix
  // stays as it is, as its columns mean nothing alone, and so does a table with fields in its head. Roles keep
  // it a table for screen readers.
  const phone = matchMedia("(max-width: 40rem)");
  const roles = { THEAD: "rowgroup", TBODY: "rowgroup", TR: "row", TD: "cell" };
  function stack(root) {
    for (const table of root.querySelectorAll("table.rw-table:not(.rw-matrix)")) {
      if (!phone.matches) { table.classList.remove("rw-stacked"); continue; }
      const heads = [...(table.tHead?.rows ?? [])];
      if (heads.length !== 1 || table.querySelector("thead [colspan], thead select")) continue;
      const box = table.closest(".rw-scroll, .rw-card");
      if (!table.matches(".rw-stacked") && !(box && box.scrollWidth > box.clientWidth + 1)) continue;
      const names = [...heads[0].cells].map((head) => head.querySelector(".rw-hidden") ? "" : head.innerText.replace(/[↑↓]/g, "").trim());
      table.classList.add("rw-stacked");
      table.setAttribute("role", "table");
      for (const part of table.querySelectorAll("thead, tbody, tr, td, th")) {
        part.setAttribute("role", roles[part.tagName] ?? (part.closest("thead") ? "columnheader" : "rowheader"));
      }
      for (const row of table.querySelectorAll("tbody tr")) {
        let column = 0;
        for (const cell of row.cells) {
          const name = names[column];
          column += cell.colSpan;
          cell.classList.toggle("rw-nothing", cell.innerText.trim() === "–");
          if (name && cell.colSpan === 1 && !cell.matches('th[scope="row"], .qs-text')) cell.dataset.column = name;
        }
      }
    }
  }

  function fit(root) {
    stack(root);
    for (const here of root.querySelectorAll(".rw-tabs [aria-current]")) {
      here.parentElement.scrollLeft = here.offsetLeft - (here.parentElement.clientWidth - here.offsetWidth) / 2;
    }
    reachable(root);
  }
  addEventListener("load", () => fit(document));
  document.addEventListener("htmx:afterSettle", () => fit(document));
  addEventListener("resize", () => fit(document));

  // `autofocus` is lost: while a browser looks for it, the shell hides the page until its own scripts have run.
  addEventListener("load", () => {
    if (document.activeElement === document.body && !location.hash) document.querySelector("main [autofocus]:not(dialog *)")?.focus();
  });

  // The pool switcher closes on Escape and on a click beside it.
  document.addEventListener("keydown", (event) => {
    const open = event.key === "Escape" && document.querySelector("details.rw-pools[open]");
    if (open) {
      open.open = false;
      open.querySelector("summary").focus();
    }
  });
  document.addEventListener("click", (event) => {
    for (const open of document.querySelectorAll("details.rw-pools[open]")) if (!open.contains(event.target)) open.open = false;
  });

  // A page whose opening writes something asks for a POST (`routerweb.http.opening`): before the page is loaded, so that "back" does not lead here.
  document.addEventListener("DOMContentLoaded", () => document.querySelector("form[data-rw-opening]")?.requestSubmit());
})();
