// Tabs of a finished run and of a model: the address's fragment says which panel shows, so that links, back and reload keep it.
"use strict";

(() => {
  const tabs = [...document.querySelectorAll(".run-tabs a[href^='#']")];
  const panelOf = (tab) => document.getElementById(tab.hash.slice(1));

  function show(tab) {
    for (const other of tabs) {
      other.toggleAttribute("aria-current", other === tab);
      if (other === tab) other.setAttribute("aria-current", "true");
      panelOf(other)?.classList.toggle("run-shown", other === tab);
    }
  }

  function follow() {
    if (!location.hash) return;
    const target = document.getElementById(location.hash.slice(1));
    const panel = target?.closest(".run-panel");
    const tab = tabs.find((one) => panelOf(one) === panel);
    if (!tab) return;
    show(tab);
    if (target === panel) scrollTo(0, 0);
    else target.scrollIntoView();
  }

  for (const tab of tabs) {
    tab.addEventListener("click", (event) => {
      event.preventDefault();
      history.pushState(null, "", tab.hash);
      show(tab);
    });
  }
  addEventListener("hashchange", follow);
  addEventListener("popstate", follow);
  follow();
})();
