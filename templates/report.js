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
    if (first) first.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
  search.addEventListener("input", find);

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
        ["does", step.does], ["runs on", step.place], ["type", step.type],
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
        ["writes to", run.external ? "external memory" : "the unified buffer"],
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
    node.addEventListener("focus", () => near(node.id));
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
