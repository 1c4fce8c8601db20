// Review: the agents that nobody disputes are folded away until somebody wants to see them.
const rows = document.getElementById("rv-settled");
const button = document.querySelector('[data-rv="fold"]');

if (button && rows) {
  document.documentElement.classList.add("rv-live");
  const fold = (folded) => {
    rows.classList.toggle("rv-folded", folded);
    button.setAttribute("aria-expanded", String(!folded));
    button.textContent = folded ? button.dataset.more : button.dataset.less;
  };
  fold(true);
  button.addEventListener("click", () => fold(!rows.classList.contains("rv-folded")));
}
