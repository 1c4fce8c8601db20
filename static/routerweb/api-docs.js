// Draws the API's description. A file of its own, so that no page needs a script inside it; nothing is asked of another site.
"use strict";

const place = document.getElementById("api-docs");

window.SwaggerUIBundle({
  url: place.dataset.schema,
  domNode: place,
  deepLinking: true,
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  displayRequestDuration: true,
  tryItOutEnabled: true,
  // The validator would be asked on the internet.
  validatorUrl: null,
});
