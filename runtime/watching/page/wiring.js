"use strict";
// The drawing of the wiring: in a shadow tree, where its styles do not affect the page, with a bar in each worker that
// shows how it spends its time.
const wiring = (() => {
  const svgName = "http://www.w3.org/2000/svg";
  const colours = {compute: "#0072b2", data: "#e69f00", exchange: "#d55e00"};
  const rates = new Map();  // the text of each edge
  let drawing = null;

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
    document.querySelector("#wiring figure").replaceChildren(host);
    document.getElementById("wiring").hidden = false;
    drawing = host.shadowRoot;
    update();
  };

  const mark = (node, shares, text) => {
    node.querySelectorAll(".share").forEach(each => each.remove());
    node.querySelector("title").textContent = text;
    const box = node.querySelector("path, polygon").getBBox();
    let x = box.x + 5;
    for (const [name, share] of Object.entries(shares)) {
      const bar = document.createElementNS(svgName, "rect");
      const width = (box.width - 10) * share;
      for (const [key, value] of Object.entries({class: "share", x, y: box.y + box.height - 5, width, height: 3,
                                                 fill: colours[name]})) bar.setAttribute(key, value);
      node.append(bar);
      x += width;
    }
  };

  // A line stands for both directions. Of a few edges, the rate is written below its middle.
  const markEdge = (edge, of, isWritten) => {
    edge.dataset.name ??= edge.querySelector("title")?.textContent ?? "";
    const name = edge.dataset.name, back = name.split("->").reverse().join("->");
    const found = [name, back].filter(each => of[each]);
    if (!found.length) return;
    edge.querySelector("title").textContent = found.map(each => `${each}: ${of[each].text}`).join("\n");
    rates.get(edge)?.remove();
    const line = edge.querySelector("path");
    if (!isWritten || !line) return;
    const middle = line.getPointAtLength(line.getTotalLength() / 2);
    const text = document.createElementNS(svgName, "text");
    for (const [key, value] of Object.entries({x: middle.x, y: middle.y + 17, fill: "#2b6cb0",
                                               "text-anchor": "middle", "font-size": 9,
                                               "font-family": "Helvetica,Arial,sans-serif", stroke: "#f6f8fb",
                                               "stroke-width": 3, "paint-order": "stroke"}))
      text.setAttribute(key, value);
    text.textContent = of[found[0]].rate;
    edge.parentNode.append(text);  // above the labels of the drawing
    rates.set(edge, text);
  };

  // Takes what the page has about workers and edges.
  const update = () => {
    const drawn = document.getElementById("drawn");
    if (!drawing || !drawn) return;
    const {workers, edges} = JSON.parse(drawn.textContent);
    for (const node of drawing.querySelectorAll(".node")) {
      node.dataset.name ??= node.querySelector("title")?.textContent ?? "";
      const found = workers[node.dataset.name];
      if (found) mark(node, found.shares, found.text);
    }
    const lines = drawing.querySelectorAll(".edge");
    lines.forEach(edge => markEdge(edge, edges, lines.length <= 12));
  };

  const picture = document.querySelector("#wiring img");
  if (picture) show(new TextDecoder().decode(Uint8Array.from(atob(picture.src.split(",")[1]), c => c.charCodeAt(0))));
  return {show, update, isShown: () => drawing !== null};
})();
