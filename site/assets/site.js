// Sorting, filtering, picking and copying. Pages are whole without it; what needs it is shown by it.
"use strict";

(() => {
  // What was chosen is kept in the fragment of the address, which also works from a file: `#key=value&...`.
  const state = {
    read() {
      const text = location.hash.slice(1);
      return new URLSearchParams(text.includes("=") ? text : "");
    },
    write(name, value) {
      const values = this.read();
      if (value) values.set(name, value);
      else values.delete(name);
      const text = values.toString();
      history.replaceState(null, "", text ? `#${text}` : location.pathname + location.search);
    },
  };

  // A cell's value: a number where it is one; empty cells come last in either direction.
  const valueOf = (row, column) => {
    const cell = row.cells[column];
    const text = cell === undefined ? "" : (cell.dataset.v ?? cell.textContent.trim());
    return text !== "" && !Number.isNaN(Number(text)) ? Number(text) : text;
  };
  const compare = (a, b) => {
    if (typeof a === "number" && typeof b === "number") return a - b;
    return String(a).localeCompare(String(b), "en", { numeric: true });
  };

  function sortable(table) {
    const heads = [...table.tHead.rows[0].cells];
    const name = table.dataset.state;
    const bodies = [...table.tBodies];
    bodies.forEach((body) => [...body.rows].forEach((row, place) => { row.dataset.place = place; }));

    function sort(column, direction) {
      heads.forEach((head, place) => {
        if (place === column) head.setAttribute("aria-sort", direction);
        else head.removeAttribute("aria-sort");
      });
      const sign = direction === "descending" ? -1 : 1;
      for (const body of bodies) {
        const rows = [...body.rows].filter((row) => row.classList.contains("stack"));
        rows.sort((a, b) => {
          if (column < 0) return a.dataset.place - b.dataset.place;
          const [left, right] = [valueOf(a, column), valueOf(b, column)];
          if (left === "" || right === "") return (left === "") - (right === "") || a.dataset.place - b.dataset.place;
          return sign * compare(left, right) || a.dataset.place - b.dataset.place;
        });
        body.append(...rows);
      }
    }

    heads.forEach((head, column) => {
      if (!head.dataset.key) return;
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        // Up, down, and back to the order of the page.
        const now = head.getAttribute("aria-sort");
        const next = now === "ascending" ? "descending" : now === "descending" ? "" : "ascending";
        sort(next ? column : -1, next);
        state.write(`${name}.sort`, next ? `${head.dataset.key}.${next === "ascending" ? "up" : "down"}` : "");
      });
    });

    const restore = () => {
      const [key, way] = (state.read().get(`${name}.sort`) ?? "").split(".");
      const column = heads.findIndex((head) => head.dataset.key && head.dataset.key === key);
      if (column >= 0) sort(column, way === "down" ? "descending" : "ascending");
      else if (heads.some((head) => head.hasAttribute("aria-sort"))) sort(-1, "");
    };
    restore();
    window.addEventListener("hashchange", restore);
  }

  const GIB = 1024 ** 3;
  const rules = {
    // "unknown" is never taken for "no": such rows stay, and are counted.
    memory: (row, value, all) => {
      const tokens = Number(all.context || 0);
      if (tokens && !row.dataset.token) return null;
      return Number(row.dataset.bytes) + tokens * Number(row.dataset.token || 0) <= Number(value) * GIB;
    },
    context: (row, value, all) => {
      if (!row.dataset.token) return null;
      const memory = Number(all.memory || all.card || 0);
      return !memory || Number(row.dataset.bytes) + Number(value) * Number(row.dataset.token) <= memory * GIB;
    },
    tools: (row) => (Number(row.dataset.calls) > 0 ? true : null),
    text: (row, value) => row.dataset.text.toLowerCase().includes(value.toLowerCase()),
    factor: (row, value) => row.dataset.factor.split(" ").includes(value),
  };

  function filterable(controls) {
    const name = controls.dataset.controls;
    const fields = [...controls.querySelectorAll("[data-filter]")];
    const memory = controls.querySelector('[data-filter="memory"]');
    const tables = [...document.querySelectorAll(`table[data-state="${name}"], table[data-state="${name}-kl"]`)];
    const count = controls.querySelector("[data-count]");

    function apply() {
      const chosen = fields
        .map((field) => [field.dataset.filter, field.type === "checkbox" ? (field.checked ? "1" : "") : field.value.trim()])
        .filter(([, value]) => value !== "");
      const all = { ...Object.fromEntries(chosen), card: memory ? memory.placeholder : "" };
      let [total, shown, unknown] = [0, 0, 0];
      tables.forEach((table, number) => {
        for (const body of table.tBodies) {
          let left = 0;
          for (const row of body.rows) {
            if (!row.classList.contains("stack")) continue;
            const verdicts = chosen.map(([key, value]) => (rules[key] ? rules[key](row, value, all) : row.dataset[key] === value));
            row.hidden = verdicts.includes(false);
            left += row.hidden ? 0 : 1;
            if (number > 0) continue;
            total += 1;
            shown += row.hidden ? 0 : 1;
            unknown += !row.hidden && verdicts.includes(null) ? 1 : 0;
          }
          body.hidden = left === 0;
        }
      });
      count.textContent = chosen.length === 0 ? "" : `${shown} of ${total} rows` + (unknown ? `; for ${unknown} of them it is not known or not measured` : "");
    }

    function restore() {
      const values = state.read();
      for (const field of fields) {
        const value = values.get(`${name}.${field.dataset.filter}`) ?? "";
        if (field.type === "checkbox") field.checked = value === "1";
        else field.value = value;
      }
      apply();
    }

    for (const field of fields) {
      field.addEventListener("input", () => {
        state.write(`${name}.${field.dataset.filter}`, field.type === "checkbox" ? (field.checked ? "1" : "") : field.value.trim());
        apply();
      });
    }
    controls.querySelector("[data-reset]")?.addEventListener("click", () => {
      for (const field of fields) state.write(`${name}.${field.dataset.filter}`, "");
      restore();
    });
    controls.hidden = false;
    restore();
    window.addEventListener("hashchange", restore);
  }

  function pickable(controls) {
    const fields = [...controls.querySelectorAll("[data-pick]")];
    const stacks = [...document.querySelectorAll("details.launch")];
    const none = controls.querySelector("[data-none]");
    function apply() {
      let found = 0;
      for (const stack of stacks) {
        const mine = fields.every((field) => stack.dataset[field.dataset.pick] === field.value);
        stack.hidden = !mine;
        if (mine) stack.open = true;
        found += mine ? 1 : 0;
      }
      none.hidden = found > 0;
    }
    function restore() {
      const values = state.read();
      for (const field of fields) {
        const value = values.get(`launch.${field.dataset.pick}`);
        if (value && [...field.options].some((option) => option.value === value)) field.value = value;
      }
      apply();
    }
    for (const field of fields) {
      field.addEventListener("input", () => {
        state.write(`launch.${field.dataset.pick}`, field.value);
        apply();
      });
    }
    controls.hidden = false;
    restore();
    window.addEventListener("hashchange", restore);
  }

  function copyable(block) {
    const code = block.querySelector("code");
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Copy";
    const say = (text) => {
      button.textContent = text;
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    };
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(code.textContent);
        say("Copied");
      } catch {
        // Refused, or no clipboard here: the text is selected, so that one keystroke copies it.
        getSelection().selectAllChildren(code);
        say("Selected");
      }
    });
    block.prepend(button);
  }

  document.querySelectorAll("table[data-sortable]").forEach(sortable);
  document.querySelectorAll("[data-controls]").forEach(filterable);
  document.querySelectorAll("#pick").forEach(pickable);
  document.querySelectorAll(".command").forEach(copyable);
})();
