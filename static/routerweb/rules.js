// The form of a launch rule shows the fields that its "when" has a use for; without JavaScript all of them stand there.
"use strict";

(() => {
  const used = { nightly: ["hour", "only_new"], labels: ["labels", "rest_hours"], drift: ["rest_hours"] };
  document.addEventListener("DOMContentLoaded", () => {
    const when = document.querySelector('select[name="trigger"]');
    if (!when) return;
    const show = () => {
      for (const field of document.querySelectorAll("[data-rw-when]")) {
        // What is marked as wrong stays in sight.
        field.hidden = !field.querySelector(".rw-error") && field.dataset.rwWhen !== "trigger" && !used[when.value]?.includes(field.dataset.rwWhen);
      }
    };
    when.addEventListener("change", show);
    show();
  });
})();
