"use strict";
// What all figures of a page do, also those that are added later: the value nearest to the pointer, names that hide and
// show their series, axes to choose from, and downloads. `csv` has the values of a figure by its name: those that the page contains, unless
// another function is put in its place. `show` and `leave` show a text at a place, and nothing.
const figures = (() => {
  const tip = document.getElementById("tip");
  const svgName = "http://www.w3.org/2000/svg";
  const given = document.getElementById("csv");
  const hidden = new Set();

  // A click on a name in a legend hides or shows it in every figure.
  const apply = root => {
    root.querySelectorAll("[data-series]").forEach(each => each.classList.toggle("away", hidden.has(each.dataset.series)));
    root.querySelectorAll(".figure:has([data-places])").forEach(place);
  };
  document.addEventListener("click", event => {
    const key = event.target.closest(".key");
    if (!key) return;
    const name = key.dataset.series;
    if (!hidden.delete(name)) hidden.add(name);
    apply(document);
  });

  // The axes that the reader has chosen. A figure that does not have one of them keeps its own, which is the first. The
  // places on every axis are in the page: see places_of() in figure.cpp.
  const chosen = {};
  const axis = (svg, way) => {
    const all = [...svg.querySelectorAll(`.axis[data-${way}]`)];
    const shown = all.find(each => each.dataset[way] === chosen[way]) ?? all[0];
    all.forEach(each => each.classList.toggle("other", each !== shown));
    return {...shown.dataset, suffix: shown === all[0] ? "" : `-${shown.dataset[way]}`};
  };
  const place = svg => {
    const x = axis(svg, "x"), y = axis(svg, "y");
    svg.dataset.suffix = x.suffix + y.suffix;
    svg.setAttribute("aria-label", svg.getAttribute("aria-label").replace(/ against .*/, ` against ${x.title}`));
    for (const line of svg.querySelectorAll("[data-places]")) {
      const places = JSON.parse(line.dataset.places), xs = places.x[x.x], {middle, low, high} = places.y[y.y];
      const has = i => xs[i] !== null && middle[i] !== null;
      const at = ys => i => `${xs[i]},${ys[i]}`;
      const seen = [...xs.keys()].filter(has);
      const curve = line.querySelector(".line");
      line.texts ??= JSON.parse(curve.dataset.points).map(point => point[2]);
      curve.setAttribute("points", seen.map(at(middle)).join(" "));
      curve.dataset.points = JSON.stringify(seen.map(i => [xs[i], middle[i], line.texts[i]]));
      if (high) line.querySelector(".band")?.setAttribute("points", [...seen.map(at(high)), ...seen.reverse().map(at(low))].join(" "));
      const own = Object.values(places.x)[0], mid = places.y.linear.middle;
      for (const marker of line.querySelectorAll("[data-at]")) {
        const i = marker.dataset.at;
        marker.classList.toggle("other", !has(i));
        if (has(i)) marker.setAttribute("transform", `translate(${xs[i] - own[i]} ${middle[i] - mid[i]})`);
      }
    }
    known.delete(svg);
  };
  for (const control of document.querySelectorAll("[data-chooses]")) {
    const choose = () => {
      chosen[control.dataset.chooses] = control.type !== "checkbox" || control.checked ? control.value : undefined;
      leave();
      apply(document);
    };
    control.addEventListener("change", choose);
    control.closest("[hidden]")?.removeAttribute("hidden");
  }

  // The value nearest to the pointer.
  const ring = document.createElementNS(svgName, "circle");
  ring.setAttribute("class", "near");
  ring.setAttribute("r", "7");
  const known = new WeakMap();
  const pointsOf = svg => {
    if (!known.has(svg))
      known.set(svg, [...svg.querySelectorAll("[data-points]")].flatMap(line =>
        JSON.parse(line.dataset.points).map(([x, y, text]) => ({x, y, text, group: line.closest("g")}))));
    return known.get(svg);
  };
  const leave = () => { tip.hidden = true; ring.remove(); };
  const show = (text, left, top) => {
    tip.textContent = text;
    tip.hidden = false;
    const width = document.documentElement.clientWidth;
    tip.style.left = `${Math.max(4, Math.min(left + 12, width - tip.offsetWidth - 4))}px`;
    tip.style.top = `${top - tip.offsetHeight - 12 < 4 ? top + 14 : top - tip.offsetHeight - 12}px`;
  };
  const move = event => {
    const svg = event.target.closest?.(".figure");
    if (event.target.closest?.(".drawing")) return;
    if (!svg) return leave();
    const box = svg.getBoundingClientRect();
    const scale = svg.viewBox.baseVal.width / box.width;
    const x = (event.clientX - box.left) * scale, y = (event.clientY - box.top) * scale;
    let best = null, least = 40 * 40;
    for (const point of pointsOf(svg)) {
      const distance = (point.x - x) ** 2 + (point.y - y) ** 2;
      if (distance < least && !point.group.classList.contains("away")) [best, least] = [point, distance];
    }
    if (!best) return leave();
    ring.setAttribute("cx", best.x);
    ring.setAttribute("cy", best.y);
    svg.append(ring);
    show(best.text, box.left + best.x / scale, box.top + best.y / scale);
  };
  document.addEventListener("pointermove", move);
  document.addEventListener("pointerdown", move);
  document.documentElement.addEventListener("pointerleave", leave);

  // Downloads of the form of a figure that is shown. A drawing in a shadow tree has its own styles.
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
    copy.querySelectorAll(".away:not(.key), .other").forEach(each => each.remove());
    copy.querySelectorAll("[data-places]").forEach(each => delete each.dataset.places);
    if (copy.matches(".figure")) {
      const style = document.createElementNS(svgName, "style");
      style.textContent = document.getElementById("figure-style").textContent;
      copy.prepend(style);
    }
    return new XMLSerializer().serializeToString(copy);
  };
  const drawingOf = card => card.querySelector(".drawing")?.shadowRoot.querySelector("svg") ??
    [...card.querySelectorAll(".figure")].find(svg => svg.getClientRects().length > 0);
  document.addEventListener("click", async event => {
    const button = event.target.closest("[data-save]");
    if (!button) return;
    const card = button.closest(".card"), name = card.dataset.figure;
    if (button.dataset.save === "csv") return save(`${name}.csv`, "text/csv", (await figures.csv())[name]);
    const shown = drawingOf(card);
    const suffix = shown.closest("[data-suffix]")?.dataset.suffix ?? "";
    save(`${name}${suffix}.svg`, "image/svg+xml", standalone(shown));
  });

  return {csv: () => given ? JSON.parse(given.textContent) : {}, apply, show, leave};
})();
