"use strict";
(() => {
  // Logarithmic axes: both forms of each figure are in the page.
  const logarithmic = document.getElementById("logarithmic");
  const choose = () => document.body.classList.toggle("logarithmic-axes", logarithmic.checked);
  logarithmic.addEventListener("change", choose);
  choose();

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
