"use strict";
(() => {
  // Linear and logarithmic axes: every form of each figure is in the page. The first is the one that suits it.
  const horizontal = document.getElementById("horizontal"), logarithmic = document.getElementById("logarithmic");
  const choose = () => {
    figures.leave();
    for (const card of document.querySelectorAll(".card:has(.form)")) {
      const forms = [...card.querySelectorAll(".form")];
      const x = horizontal.value || forms[0].dataset.x, y = logarithmic.checked ? "logarithmic" : "linear";
      const fits = forms.filter(form => form.dataset.x === x);
      const shown = fits.find(form => form.dataset.y === y) ?? fits[0];
      forms.forEach(form => { form.hidden = form !== shown; });
    }
  };
  for (const control of [horizontal, logarithmic]) control.addEventListener("change", choose);
  horizontal.closest("[hidden]").hidden = false;

  // A click on a heading sorts the table by that column; a second click reverses it.
  const table = document.getElementById("results");
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => heading.firstChild.addEventListener("click", () => {
    const down = heading.getAttribute("aria-sort") === "ascending";
    headings.forEach(each => each.removeAttribute("aria-sort"));
    heading.setAttribute("aria-sort", down ? "descending" : "ascending");
    const rank = row => Number(row.cells[column].dataset.rank);
    const rows = [...table.tBodies[0].rows].sort((a, b) => down ? rank(b) - rank(a) : rank(a) - rank(b));
    table.tBodies[0].append(...rows);
  }));
})();
