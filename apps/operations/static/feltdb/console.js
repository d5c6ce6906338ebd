/* What a script adds to pages that work without it: live parts that wait for the reader, copying, choosing all.

   Live parts are htmx's (`hx-get` every 5 seconds on `#live`). Here is only when they must not be replaced. */

"use strict";

/** Tell whether somebody is at work in the live part: chose rows, opened something, reads by keyboard, selects text. */
function busy(live) {
  const selection = document.getSelection();
  return (
    document.hidden ||
    live.querySelector("input:checked, details[open]") !== null ||
    (live.contains(document.activeElement) && document.activeElement !== document.body) ||
    (!selection.isCollapsed && live.contains(selection.anchorNode))
  );
}

document.addEventListener("htmx:beforeRequest", (event) => {
  if (event.target.id === "live" && busy(event.target)) event.preventDefault();
});

document.addEventListener("htmx:beforeSwap", (event) => {
  if (event.target.id !== "live") return;
  if (event.detail.xhr.status >= 500) return; // told below, and never put in place of what is shown
  // Signed out meanwhile, or the page is gone: let the browser show what the server says.
  if (!event.detail.serverResponse.includes('id="live"')) {
    event.preventDefault();
    location.reload();
  } else if (busy(event.target)) {
    event.preventDefault();
  }
});

const LOST =
  "This page is no longer live: the server cannot be reached. What is shown may be out of date; " +
  "the server is asked again every 5 seconds.";

/** Say above the live part that it is not live any more, once, for as long as that is so. */
function tellLost(event) {
  if (event.target.id !== "live" || document.getElementById("lost")) return;
  const notice = document.createElement("p");
  notice.id = "lost";
  notice.className = "notice notice-warning";
  notice.setAttribute("role", "alert");
  notice.textContent = LOST;
  event.target.before(notice);
}

for (const name of ["sendError", "timeout", "responseError"]) {
  document.addEventListener(`htmx:${name}`, tellLost);
}
document.addEventListener("htmx:afterRequest", (event) => {
  if (event.detail.successful) document.getElementById("lost")?.remove();
});

/** Give each command a button that copies it. */
function addCopying(root) {
  if (!navigator.clipboard) return;
  for (const command of root.querySelectorAll("pre.command")) {
    if (command.previousElementSibling?.matches("button.copy")) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy quiet";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(command.textContent.trim());
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy"), 2000);
    });
    command.before(button);
  }
}

/** Give each table of choices a box that chooses all of it. */
function addChoosingAll(root) {
  for (const head of root.querySelectorAll("th.choose")) {
    if (head.querySelector("input")) continue;
    const boxes = () => head.closest("table").querySelectorAll("td > input[type=checkbox]");
    const all = document.createElement("input");
    all.type = "checkbox";
    all.setAttribute("aria-label", "Choose all that are shown");
    all.addEventListener("change", () => boxes().forEach((box) => (box.checked = all.checked)));
    head.append(all);
  }
}

function enrich(root) {
  addCopying(root);
  addChoosingAll(root);
}

document.addEventListener("DOMContentLoaded", () => enrich(document));
document.addEventListener("htmx:afterSettle", () => enrich(document));
