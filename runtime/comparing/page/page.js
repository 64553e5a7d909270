"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const tip = document.getElementById("tip");

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

  // A click on a name in a legend hides or shows it in every figure.
  document.querySelectorAll(".key").forEach(key => key.addEventListener("click", () => {
    const away = !key.classList.contains("away");
    document.querySelectorAll(`[data-series="${key.dataset.series}"]`)
      .forEach(each => each.classList.toggle("away", away));
  }));

  // The value nearest to the pointer.
  const svgName = "http://www.w3.org/2000/svg";
  document.querySelectorAll(".figure").forEach(svg => {
    const points = [...svg.querySelectorAll("[data-points]")].flatMap(line =>
      JSON.parse(line.dataset.points).map(([x, y, text]) => ({x, y, text, group: line.closest("g")})));
    const ring = document.createElementNS(svgName, "circle");
    ring.setAttribute("class", "near");
    ring.setAttribute("r", "7");
    const leave = () => { tip.hidden = true; ring.remove(); };
    svg.addEventListener("pointerleave", leave);
    const move = event => {
      const box = svg.getBoundingClientRect();
      const scale = svg.viewBox.baseVal.width / box.width;
      const x = (event.clientX - box.left) * scale, y = (event.clientY - box.top) * scale;
      let best = null, least = 40 * 40;
      for (const point of points) {
        const distance = (point.x - x) ** 2 + (point.y - y) ** 2;
        if (distance < least && !point.group.classList.contains("away")) [best, least] = [point, distance];
      }
      if (!best) return leave();
      ring.setAttribute("cx", best.x);
      ring.setAttribute("cy", best.y);
      svg.append(ring);
      tip.textContent = best.text;
      tip.hidden = false;
      const left = box.left + best.x / scale, top = box.top + best.y / scale;
      const width = document.documentElement.clientWidth;
      tip.style.left = `${Math.max(4, Math.min(left + 12, width - tip.offsetWidth - 4))}px`;
      tip.style.top = `${top - tip.offsetHeight - 12 < 4 ? top + 14 : top - tip.offsetHeight - 12}px`;
    };
    svg.addEventListener("pointermove", move);
    svg.addEventListener("pointerdown", move);
  });

  // Downloads.
  const save = (name, type, text) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], {type}));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  const standalone = svg => {
    const copy = svg.cloneNode(true);
    copy.querySelectorAll(".near").forEach(each => each.remove());
    copy.querySelectorAll(".away:not(.key)").forEach(each => each.remove());
    const style = document.createElementNS(svgName, "style");
    style.textContent = document.getElementById("figure-style").textContent;
    copy.prepend(style);
    return new XMLSerializer().serializeToString(copy);
  };
  document.querySelectorAll("[data-save]").forEach(button => button.addEventListener("click", () => {
    const card = button.closest(".card"), name = card.dataset.figure;
    if (button.dataset.save === "csv") return save(`${name}.csv`, "text/csv", data.csv[name]);
    const form = logarithmic.checked ? "logarithmic" : "linear";
    save(`${name}${logarithmic.checked ? "-logarithmic" : ""}.svg`, "image/svg+xml",
         standalone(card.querySelector(`.${form} svg`)));
  }));
})();
