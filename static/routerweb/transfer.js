// A file may be dropped anywhere on the import page: it is put into the form's field, as if it had been chosen there.
"use strict";

(() => {
  const field = () => document.querySelector('.transfer-drop input[type="file"]');
  const holdsFile = (event) => field() && [...(event.dataTransfer?.types ?? [])].includes("Files");

  addEventListener("dragover", (event) => {
    if (!holdsFile(event)) return;
    event.preventDefault();
    field().classList.add("transfer-over");
  });
  addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) field()?.classList.remove("transfer-over");
  });
  addEventListener("drop", (event) => {
    if (!holdsFile(event)) return;
    event.preventDefault();
    field().files = event.dataTransfer.files;
    field().classList.remove("transfer-over");
    field().dispatchEvent(new Event("change", { bubbles: true }));
  });
})();
