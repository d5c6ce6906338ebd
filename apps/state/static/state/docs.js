// Starts Swagger UI on the document of this server; nothing is loaded from or sent to anywhere else.
"use strict";

const place = document.getElementById("docs");
window.SwaggerUIBundle({
  url: place.dataset.document,
  domNode: place,
  deepLinking: true,
  validatorUrl: null,
  persistAuthorization: false,
  displayRequestDuration: true,
});
