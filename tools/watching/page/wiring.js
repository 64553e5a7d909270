"use strict";
// The drawing of the wiring: in a shadow tree, where its styles do not affect the page, with a bar in each worker that
// shows how it spends its time, and what each edge carries.
const wiring = (() => {
  const svgName = "http://www.w3.org/2000/svg";
  const colours = {compute: "#0072b2", data: "#e69f00", exchange: "#d55e00"};
  const rates = new Map();  // the texts beside each edge
  let drawing = null;

  const make = (name, attributes) => {
    const made = document.createElementNS(svgName, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  };

  // The numbers of the worker or edge under the pointer. A line is thin: its numbers show near it, too.
  const point = event => {
    const found = event.target.closest(".node, .edge");
    const text = found?.getAttribute("aria-label");
    if (text) figures.show(text, event.clientX, event.clientY);
    else figures.leave();
  };

  const show = text => {
    const parsed = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
    if (parsed.nodeName !== "svg") return;
    const width = parsed.viewBox.baseVal.width;
    parsed.removeAttribute("width");
    parsed.removeAttribute("height");
    parsed.style.cssText = `display: block; width: 100%; max-width: ${width * 4 / 3}px; margin: 0 auto`;
    const host = document.createElement("div");
    host.className = "drawing";
    host.attachShadow({mode: "open"}).append(document.importNode(parsed, true));
    host.addEventListener("pointerleave", figures.leave);
    for (const kind of ["pointermove", "pointerdown"]) host.shadowRoot.addEventListener(kind, point);
    for (const line of host.shadowRoot.querySelectorAll(".edge path"))
      line.after(make("path", {d: line.getAttribute("d"), stroke: "transparent", "stroke-width": 14, fill: "none"}));
    document.querySelector("#wiring .place").replaceChildren(host);
    document.getElementById("wiring").hidden = false;
    drawing = host.shadowRoot;
    update();
  };

  const setText = (element, text) => {
    element.setAttribute("aria-label", text);
    element.querySelector("title")?.remove();  // the browser would show it as well
  };

  const mark = (node, {shares, text, awaited}) => {
    node.querySelectorAll(".share").forEach(each => each.remove());
    setText(node, text);
    const shape = node.querySelector("rect"), box = shape.getBBox();
    shape.style.strokeWidth = awaited ? 3 : "";
    shape.style.stroke = awaited ? colours.exchange : "";
    let x = box.x + 5;
    for (const [name, share] of Object.entries(shares)) {
      const width = (box.width - 10) * share;
      node.append(make("rect", {class: "share", x, y: box.y + box.height - 5, width, height: 3, fill: colours[name]}));
      x += width;
    }
  };

  // Where the texts of an edge are: below the middle of its line or, where others are, nearer to an end of it; null if
  // there is no room. Beside a steep line, they are on the side away from the centre.
  const placeOn = (line, used, centre) => {
    const length = line.getTotalLength();
    const at = share => line.getPointAtLength(length * share);
    const isFree = ({x, y}) => used.every(each => Math.abs(each.x - x) > 50 || Math.abs(each.y - y) > 22);
    const place = [.5, .28, .72].map(at).find(isFree);
    if (!place) return null;
    used.push(place);
    const next = at(.51), middle = at(.5);
    const isSteep = Math.abs(next.y - middle.y) > Math.abs(next.x - middle.x);
    const side = !isSteep ? 0 : place.x < centre ? -1 : 1;
    return {x: place.x + 5 * side, y: place.y + 17, "text-anchor": ["end", "middle", "start"][side + 1]};
  };

  // A line stands for both directions. Of a few edges, the most important numbers are written beside it.
  const markEdge = (edge, of, write) => {
    const name = edge.dataset.name, back = name.split("->").reverse().join("->");
    const found = [name, back].filter(each => of[each]);
    if (!found.length) return;
    setText(edge, found.map(each => `${each}: ${of[each].text}`).join("\n"));
    rates.get(edge)?.forEach(each => each.remove());
    const line = edge.querySelector("path");
    if (!write || !line) return;
    const place = placeOn(line, write.used, write.centre);
    if (!place) return;
    const texts = of[found[0]].short.map((short, i) => {
      const text = make("text", {...place, y: place.y + 10 * i, fill: "#2b6cb0", "font-size": 9,
                                 "font-family": "Helvetica,Arial,sans-serif", stroke: "#f6f8fb", "stroke-width": 3,
                                 "paint-order": "stroke", "pointer-events": "none"});
      text.textContent = short;
      edge.parentNode.append(text);  // above the labels of the drawing
      return text;
    });
    rates.set(edge, texts);
  };

  // Takes what the page has about workers and edges.
  const update = () => {
    const drawn = document.getElementById("drawn");
    if (!drawing || !drawn) return;
    const {workers, edges} = JSON.parse(drawn.textContent);
    for (const each of drawing.querySelectorAll(".node, .edge"))
      each.dataset.name ??= each.querySelector("title")?.textContent ?? "";
    for (const node of drawing.querySelectorAll(".node"))
      if (workers[node.dataset.name]) mark(node, workers[node.dataset.name]);
    const lines = drawing.querySelectorAll(".edge");
    const box = drawing.querySelector("svg").viewBox.baseVal;
    const write = lines.length <= 12 ? {used: [], centre: box.x + box.width / 2} : null;
    lines.forEach(edge => markEdge(edge, edges, write));
  };

  const picture = document.querySelector("#wiring img");
  if (picture) show(new TextDecoder().decode(Uint8Array.from(atob(picture.src.split(",")[1]), c => c.charCodeAt(0))));
  return {show, update, isShown: () => drawing !== null};
})();
