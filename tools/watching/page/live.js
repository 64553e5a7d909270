"use strict";
// Follows the run: the server sends the changing parts of the page. The query of the address has the token, if any.
(() => {
  let ended = false, asked = false;
  figures.csv = async () => (await fetch("figures.json" + location.search)).json();

  const getWiring = async () => {
    if (asked || wiring.isShown()) return;
    asked = true;
    const answer = await fetch("wiring.svg" + location.search);
    if (answer.ok) wiring.show(await answer.text());
    asked = answer.ok;
  };

  const take = event => {
    const update = JSON.parse(event.data);
    ended = update.ended;
    figures.leave();
    const fresh = document.createElement("template");
    fresh.innerHTML = update.html;
    for (const part of fresh.content.querySelectorAll("[data-part]"))
      document.querySelector(`[data-part="${part.dataset.part}"]`).replaceWith(part);
    document.title = update.title;
    figures.apply(document);
    if (update.wiring) getWiring().catch(() => { asked = false; });
    wiring.update();
  };

  const lost = () => {
    if (ended) return source.close();
    const badge = document.querySelector(".badge");
    badge.textContent = "connection lost";
    badge.className = "badge lost";
  };

  const source = new EventSource("events" + location.search);
  source.addEventListener("message", take);
  source.addEventListener("error", lost);
})();
