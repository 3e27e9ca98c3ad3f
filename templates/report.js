"use strict";
(() => {
  const report = JSON.parse(document.getElementById("report-data").textContent);
  const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
  const details = document.getElementById("details");
  const search = document.getElementById("search");
  let opener = null;

  // --- sorting: a click on a title, by numbers where a cell has data-value ---
  const key = (row, column) => row.cells[column].dataset.value ?? row.cells[column].textContent.trim();
  function sort(header) {
    const table = header.closest("table");
    const column = header.cellIndex;
    const up = header.getAttribute("aria-sort") !== "ascending";
    const numeric = header.classList.contains("number");
    const order = (a, b) => numeric ? Number(key(a, column) || -1) - Number(key(b, column) || -1) : key(a, column).localeCompare(key(b, column));
    $$("th", table).forEach((each) => each.removeAttribute("aria-sort"));
    header.setAttribute("aria-sort", up ? "ascending" : "descending");
    const body = table.tBodies[0];
    const rows = [...body.rows].sort((a, b) => (up ? order(a, b) : order(b, a)));
    body.append(...rows);
  }
  $$("th button").forEach((button) => button.addEventListener("click", () => sort(button.parentElement)));

  // --- searching: rows and nodes that have the words ---
  function find() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const has = (element) => words.every((word) => element.textContent.toLowerCase().includes(word));
    $$("main tbody tr").forEach((row) => { row.hidden = !has(row); });
    $$(".node").forEach((node) => {
      const found = words.length > 0 && has(node);
      node.classList.toggle("found", found);
      node.classList.toggle("faint", words.length > 0 && !found);
    });
    document.getElementById("found").textContent = words.length ? `${$$(".node.found").length} steps` : "";
    const first = document.querySelector(".node.found");
    if (first) reveal(first);
  }
  search.addEventListener("input", find);

  // --- the network: its viewBox is what the viewer shows ---
  const READABLE = 0.8; // points of the screen for one of the picture, at least, when the page opens
  const LARGEST = 4;
  const CLICK = 4; // points that a pointer may move during a click
  const viewer = document.querySelector(".viewer");
  const reveal = viewer ? view(viewer, viewer.querySelector(".picture")) : () => {};
  function corner(node) {
    const at = node.transform.baseVal.consolidate().matrix;
    return [at.e, at.f];
  }
  function view(frame, picture) {
    const [width, height] = picture.getAttribute("viewBox").split(" ").slice(2).map(Number);
    const clip = (value, low, high) => Math.max(low, Math.min(high, value));
    const whole = () => Math.min(frame.clientWidth / width, frame.clientHeight / height);
    let scale = 1, x = 0, y = 0; // x, y: of the picture, at the upper left corner of the frame
    const map = minimap(frame, picture, width, height, (toX, toY) => center(toX, toY));
    function draw() {
      const across = frame.clientWidth / scale, down = frame.clientHeight / scale;
      x = across > width ? (width - across) / 2 : clip(x, 0, width - across);
      y = down > height ? (height - down) / 2 : clip(y, 0, height - down);
      picture.setAttribute("viewBox", `${x} ${y} ${across} ${down}`);
      map(x, y, across, down);
    }
    function zoom(to, atX = frame.clientWidth / 2, atY = frame.clientHeight / 2) {
      const next = clip(to, Math.min(whole(), 1), LARGEST);
      x += atX / scale - atX / next;
      y += atY / scale - atY / next;
      scale = next;
      draw();
    }
    function move(right, down) {
      const before = [x, y];
      x += right / scale;
      y += down / scale;
      draw();
      return x !== before[0] || y !== before[1];
    }
    function center(toX, toY) {
      x = toX - frame.clientWidth / scale / 2;
      y = toY - frame.clientHeight / scale / 2;
      draw();
    }
    function show(node) {
      const box = node.getBoundingClientRect(), place = frame.getBoundingClientRect();
      if (box.left >= place.left && box.right <= place.right && box.top >= place.top && box.bottom <= place.bottom) return;
      const [atX, atY] = corner(node), size = node.getBBox();
      scale = Math.max(scale, READABLE);
      center(atX + size.width / 2, atY + size.height / 2);
    }
    function resize() {
      const ratio = clip(frame.clientWidth / width, READABLE, 1);
      frame.style.height = `${Math.max(220, Math.min(height * ratio + 2, window.innerHeight * 0.78))}px`;
    }
    const actions = { in: () => zoom(scale * 1.4), out: () => zoom(scale / 1.4), fit: () => zoom(whole()), read: () => zoom(1) };
    $$("[data-zoom]").forEach((button) => button.addEventListener("click", actions[button.dataset.zoom]));
    const keys = { "+": "in", "=": "in", "-": "out", 0: "fit", 1: "read" };
    const arrows = { ArrowLeft: [-60, 0], ArrowRight: [60, 0], ArrowUp: [0, -60], ArrowDown: [0, 60] };
    frame.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (keys[event.key]) { event.preventDefault(); actions[keys[event.key]](); }
      else if (event.target === frame && arrows[event.key]) { event.preventDefault(); move(...arrows[event.key]); }
    });
    // The wheel moves the picture, and the page once its end is reached; with Ctrl, as a pinch of a touchpad, it zooms.
    frame.addEventListener("wheel", (event) => {
      const unit = event.deltaMode ? 16 : 1, place = frame.getBoundingClientRect();
      if (event.ctrlKey || event.metaKey) {
        event.preventDefault();
        zoom(scale * Math.exp(-event.deltaY * unit / 300), event.clientX - place.left, event.clientY - place.top);
      } else if (move(event.deltaX * unit, event.deltaY * unit)) event.preventDefault();
    }, { passive: false });
    const held = new Map(); // pointers on the picture -> where they are
    let travelled = 0;
    picture.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      if (!held.size) travelled = 0;
      held.set(event.pointerId, [event.clientX, event.clientY]);
    });
    picture.addEventListener("pointermove", (event) => {
      const from = held.get(event.pointerId);
      if (!from) return;
      const to = [event.clientX, event.clientY];
      const other = [...held].find(([id]) => id !== event.pointerId)?.[1];
      travelled += Math.hypot(to[0] - from[0], to[1] - from[1]);
      if (travelled > CLICK && !picture.hasPointerCapture(event.pointerId)) {
        picture.setPointerCapture(event.pointerId);
        frame.classList.add("moving");
      }
      if (other) {
        const place = frame.getBoundingClientRect(), apart = (at) => Math.hypot(at[0] - other[0], at[1] - other[1]);
        zoom(scale * apart(to) / Math.max(1, apart(from)), (to[0] + other[0]) / 2 - place.left, (to[1] + other[1]) / 2 - place.top);
      } else if (travelled > CLICK) move(from[0] - to[0], from[1] - to[1]);
      held.set(event.pointerId, to);
    });
    for (const end of ["pointerup", "pointercancel"]) {
      picture.addEventListener(end, (event) => {
        held.delete(event.pointerId);
        if (!held.size) frame.classList.remove("moving");
      });
    }
    frame.addEventListener("click", (event) => { // the end of a drag is no click
      if (travelled > CLICK && picture.contains(event.target)) event.stopPropagation();
      travelled = 0;
    }, true);
    frame.classList.add("live");
    document.querySelector(".tools").hidden = false;
    resize();
    scale = clip(frame.clientWidth / width, READABLE, 1);
    const [first] = $$(".node", picture).map(corner).sort((one, other) => one[1] - other[1]);
    center(first ? first[0] + 104 : width / 2, 0);
    window.addEventListener("resize", () => { resize(); zoom(scale); });
    window.addEventListener("beforeprint", () => picture.setAttribute("viewBox", `0 0 ${width} ${height}`));
    window.addEventListener("afterprint", draw);
    return show;
  }
  // A small picture of a network that does not fit, with a frame around what is seen; a click goes there.
  function minimap(frame, picture, width, height, go) {
    const largest = Math.min(170, frame.clientWidth / 5), scale = Math.min(largest / width, largest / height);
    const add = (name, parent, values) => {
      const made = document.createElementNS(picture.namespaceURI, name);
      for (const [key, value] of Object.entries(values)) made.setAttribute(key, value);
      parent.append(made);
      return made;
    };
    const map = add("svg", frame, { class: "minimap", viewBox: `0 0 ${width} ${height}`, width: Math.max(16, width * scale), height: Math.max(16, height * scale), "aria-hidden": "true" });
    for (const node of $$(".node", picture)) {
      const [x, y] = corner(node);
      add("rect", map, { class: node.classList.contains("cpu") ? "cpu" : "step", x, y, width: 208, height: 50 });
    }
    const seen = add("rect", map, { class: "seen", "stroke-width": 2 / scale });
    const follow = (event) => {
      if (!event.buttons) return;
      const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(map.getScreenCTM().inverse());
      go(at.x, at.y);
    };
    map.addEventListener("pointerdown", follow);
    map.addEventListener("pointermove", follow);
    return (x, y, across, down) => {
      map.style.display = across > width - 1 && down > height - 1 ? "none" : "";
      for (const [key, value] of Object.entries({ x, y, width: across, height: down })) seen.setAttribute(key, value);
    };
  }

  // --- details of a step; texts from the model are only ever text ---
  function element(name, text, ...children) {
    const made = document.createElement(name);
    if (text) made.textContent = text;
    made.append(...children);
    return made;
  }
  function list(rows) {
    const made = element("dl", "");
    for (const [label, value] of rows) if (value !== "" && value !== null) made.append(element("dt", label), element("dd", String(value)));
    return made;
  }
  const size = (shape) => shape.join("x");
  const number = (value) => value.toLocaleString("en-US", { maximumFractionDigits: 1 });
  function describe(index) {
    const step = report.steps[index];
    const cost = step.cost;
    const parts = [
      element("h3", `${index}: ${step.layers.join(", ") || step.name}`),
      list([
        ["does", step.does], ["why", step.reason], ["runs on", step.place], ["type", step.type],
        ["reads", step.reads.map((read) => `${size(read.shape)} of ${read.step === null ? "the application" : `step ${read.step}`}`).join(", ")],
        ["writes", `${size(step.output.shape)} ${step.output.dtype} at ${number(step.output.offset)}, ${number(step.output.bytes)} bytes`],
        ["evidence", step.evidence],
        ["cycles", cost && number(cost.cycles)], ["bytes", cost && number(cost.bytes)],
        ["time", cost && `${number(cost.usec)} us, bound by ${cost.bound}`],
        ["ends because", step.ends.join("; ")],
      ]),
    ];
    step.runs.forEach((run, i) => {
      parts.push(element("h4", `Run ${i}: ${run.does}`), list([
        ["layers", run.layers.join(", ")], ["shape", `${size(run.input)} to ${size(run.output)}`], ["tiles", run.tiles],
        ["writes to", run.external ? "external memory" : "the next run, within the device"],
        ["registers", run.registers.map((each) => `${each.name} ${each.value < 256 ? each.value : `0x${each.value.toString(16)}`}`).join(", ")],
      ]));
    });
    return parts;
  }
  function close() {
    details.hidden = true;
    $$(".edge.near").forEach((edge) => edge.classList.remove("near"));
    if (opener) opener.focus();
    opener = null;
  }
  function open(from, index) {
    opener = from;
    const button = element("button", "Close");
    button.addEventListener("click", close);
    details.replaceChildren(button, ...describe(index));
    details.hidden = false;
    button.focus();
    near(`step-${index}`);
  }
  function near(id) {
    $$(".edge").forEach((edge) => edge.classList.toggle("near", edge.dataset.from === id || edge.dataset.to === id));
  }
  function makeOpen(target, index) {
    target.addEventListener("click", () => open(target, index));
    target.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); open(target, index); }
    });
  }
  $$(".node").forEach((node) => {
    if (node.id.startsWith("step-")) makeOpen(node, Number(node.id.slice(5)));
    node.addEventListener("mouseenter", () => near(node.id));
    node.addEventListener("focus", () => { near(node.id); reveal(node); });
  });
  $$("tr[data-step]").forEach((row) => { row.tabIndex = 0; makeOpen(row, Number(row.dataset.step)); });

  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !details.hidden) close();
    if (event.key === "/" && document.activeElement !== search) { event.preventDefault(); search.focus(); }
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const here = document.activeElement;
    if (step && here && here.classList.contains("node")) {
      const nodes = $$(".node");
      const next = nodes[nodes.indexOf(here) + step];
      if (next) { event.preventDefault(); next.focus(); }
    }
  });
})();
