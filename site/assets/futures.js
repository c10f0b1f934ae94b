// The viewer of forking futures. Data comes in script files that call `futures.take`, so that it also works from a disk.
"use strict";

const futures = (() => {
  const MOST_STACKS = 4;
  const CHUNK_TOKENS = 500; // of the stream, as it is put on the page and taken off again
  const KEPT_CHUNKS = 12;
  const waiting = new Map(); // name -> { promise, resolve }
  const taken = new Map();

  // Everything below puts text on the page through this: no markup is ever made of data.
  const make = (tag, attributes = {}, ...children) => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value === false || value === null || value === undefined) continue;
      node.setAttribute(name, value === true ? "" : String(value));
    }
    node.append(...children.filter((child) => child !== null && child !== undefined));
    return node;
  };
  const drawn = (tag, attributes) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, String(value));
    return node;
  };
  const count = (number) => number.toLocaleString("en");

  function take(value) {
    taken.set(value.name, value);
    waiting.get(value.name)?.resolve(value);
    if (value.name === "index") start(value);
  }

  function load(name) {
    if (taken.has(name)) return Promise.resolve(taken.get(name));
    if (waiting.has(name)) return waiting.get(name).promise;
    const entry = {};
    entry.promise = new Promise((resolve, reject) => {
      entry.resolve = resolve;
      const script = make("script", { src: `${name}.js` });
      script.onerror = () => { waiting.delete(name); reject(new Error(`${name}.js cannot be loaded`)); };
      script.onload = () => script.remove();
      document.head.append(script);
    });
    waiting.set(name, entry);
    return entry.promise;
  }

  // First index with list[index] >= value, for ascending keys.
  const lower = (list, value, key = (item) => item) => {
    let [low, high] = [0, list.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (key(list[middle]) < value) low = middle + 1;
      else high = middle;
    }
    return low;
  };

  function start(index) {
    const root = document.getElementById("viewer");
    const byId = new Map(index.stacks.map((stack) => [stack.id, stack]));
    const state = { chosen: [], classes: new Set(index.classes), at: null, followed: false, role: "candidate" };
    let marks = []; // [{ at, kind, by: Map(stack id -> class) }] of the chosen stacks, in order
    let shown = null; // the mark in the panel
    let turn = 0; // what is drawn late must not overwrite what was asked for since

    // ---- controls
    const selects = Array.from({ length: MOST_STACKS }, (_, place) => {
      const select = make("select", { "aria-label": place ? `Stack ${place + 1}` : "Stack" });
      if (place) select.append(make("option", { value: "" }, "none"));
      for (const stack of index.stacks) {
        const told = `${stack.name} (${count(stack.flips)} flips${stack.forks ? `, ${count(stack.forks)} followed` : ""})`;
        select.append(make("option", { value: stack.id }, told));
      }
      select.addEventListener("change", () => {
        state.chosen = [...new Set(selects.map((one) => one.value).filter(Boolean))];
        choose(state.chosen).then(save);
      });
      return select;
    });
    const boxes = index.classes.map((name) => {
      const box = make("input", { type: "checkbox", value: name, checked: true });
      box.addEventListener("change", () => {
        if (box.checked) state.classes.add(name);
        else state.classes.delete(name);
        redraw();
        save();
      });
      return make("label", { class: "check" }, box, make("span", { class: `key ${name}`, "aria-hidden": "true" }), name);
    });
    const followedBox = make("input", { type: "checkbox" });
    followedBox.addEventListener("change", () => { state.followed = followedBox.checked; redraw(); save(); });
    const place = make("input", { type: "number", min: 0, max: index.num_tokens - 1, "aria-label": "Token" });
    const go = make("form", { class: "walk" },
      make("label", {}, "Token", place), make("button", { type: "submit" }, "Go"));
    go.addEventListener("submit", (event) => {
      event.preventDefault();
      if (place.value !== "") reach(Number(place.value), { focus: true });
    });
    const before = make("button", { type: "button", "aria-label": "Flip before" }, "← flip");
    const after = make("button", { type: "button", "aria-label": "Next flip" }, "flip →");
    before.addEventListener("click", () => step(-1, {}));
    after.addEventListener("click", () => step(1, {}));
    const said = make("p", { class: "said", role: "status" });
    const controls = make("div", { class: "controls" },
      ...selects.map((select, at) => make("label", { class: "stack-choice" }, at ? `Stack ${at + 1}` : "Stack", select)),
      make("fieldset", { class: "classes" }, make("legend", {}, "Flips shown"), ...boxes,
        make("label", { class: "check" }, followedBox, "followed only")),
      make("div", { class: "walk" }, before, after), go, said);
    const overview = make("div", { class: "overview" });
    const stream = make("div", { class: "stream", tabindex: 0, role: "region", "aria-label": "Token stream" });
    const detail = make("section", { class: "detail", "aria-label": "The flip that is open" });
    const keys = make("p", { class: "keys soft" }, "In the stream: ",
      make("kbd", {}, "←"), " ", make("kbd", {}, "→"), " flip by flip, ",
      make("kbd", {}, "Shift"), " with them the surest only, ",
      make("kbd", {}, "Home"), " ", make("kbd", {}, "End"), " first and last, ",
      make("kbd", {}, "Enter"), " into the futures, ", make("kbd", {}, "Esc"), " back.");
    root.append(controls, overview, keys, make("div", { class: "desk" }, stream, detail));
    root.hidden = false;
    document.getElementById("plain").hidden = true;

    // ---- address
    const save = () => {
      const values = new URLSearchParams();
      if (state.chosen.length) values.set("stacks", state.chosen.join("."));
      if (state.classes.size < index.classes.length) values.set("classes", [...state.classes].join("."));
      if (state.followed) values.set("followed", "1");
      if (state.at !== null) values.set("at", String(state.at));
      history.replaceState(null, "", `#${values}`);
    };
    const restore = async () => {
      const values = new URLSearchParams(location.hash.slice(1));
      const known = (values.get("stacks") ?? "").split(".").filter((id) => byId.has(id));
      const classes = values.get("classes")?.split(".").filter((name) => index.classes.includes(name));
      state.classes = new Set(classes?.length ? classes : index.classes);
      state.followed = values.get("followed") === "1";
      followedBox.checked = state.followed;
      boxes.forEach((label) => { label.firstChild.checked = state.classes.has(label.firstChild.value); });
      await choose([...new Set(known)].slice(0, MOST_STACKS));
      const at = Number(values.get("at") ?? NaN);
      if (Number.isInteger(at) && at >= 0 && at < index.num_tokens) await reach(at, {});
      else if (marks.length) {
        // The first of the surest flips that were followed: both futures are what the page is for.
        const worth = (mark) => (mark.followed ? index.classes.length : 0) + mark.kind;
        await reach(marks.reduce((best, mark) => (worth(mark) > worth(best) ? mark : best)).at, {});
      }
      save();
    };
    window.addEventListener("hashchange", restore);

    // ---- which flips
    async function choose(ids) {
      state.chosen = ids.length ? ids : [index.chosen];
      selects.forEach((select, at) => { select.value = state.chosen[at] ?? ""; });
      const mine = ++turn;
      try {
        await Promise.all(state.chosen.map((id) => load(`${id}/stack`)));
      } catch (error) {
        said.textContent = String(error.message);
        return;
      }
      if (mine === turn) redraw();
    }

    function redraw() {
      const places = new Map();
      for (const id of state.chosen) {
        const stack = taken.get(`${id}/stack`);
        if (!stack) continue;
        const followed = new Set(stack.forks);
        for (const [at, kind] of stack.flips) {
          if (!state.classes.has(index.classes[kind]) || (state.followed && !followed.has(at))) continue;
          let mark = places.get(at);
          if (!mark) places.set(at, mark = { at, kind, by: new Map(), followed: false });
          mark.by.set(id, kind);
          mark.kind = Math.max(mark.kind, kind);
          mark.followed ||= followed.has(at);
        }
      }
      marks = [...places.values()].sort((a, b) => a.at - b.at);
      const surest = marks.filter((mark) => mark.kind === 3).length;
      said.textContent = `${count(marks.length)} positions with a flip, ${count(surest)} of them confident; ` +
        `${count(marks.filter((mark) => mark.followed).length)} followed.`;
      drawOverview();
      stream.replaceChildren(...chunks());
      fill();
      if (shown) open(marks.find((mark) => mark.at === shown.at) ?? null);
    }

    // ---- overview
    function drawOverview() {
      overview.replaceChildren();
      for (const id of state.chosen) {
        const stack = taken.get(`${id}/stack`);
        if (!stack) continue;
        const totals = stack.overview[0].map((_, bin) => stack.overview.reduce((sum, one) => sum + one[bin], 0));
        const top = Math.max(1, ...totals);
        const svg = drawn("svg", { viewBox: `0 0 ${index.bins} 24`, preserveAspectRatio: "none", "aria-hidden": "true" });
        svg.append(drawn("rect", { class: "base", x: 0, y: 23, width: index.bins, height: 1 }));
        stack.overview[0].forEach((_, bin) => {
          let y = 23;
          index.classes.forEach((name, kind) => {
            const height = (stack.overview[kind][bin] / top) * 22;
            if (!height || !state.classes.has(name)) return;
            y -= height;
            svg.append(drawn("rect", { class: name, x: bin, y, width: 0.9, height }));
          });
        });
        const here = drawn("rect", { class: "here", x: -2, y: 0, width: 0.7, height: 24 });
        here.dataset.here = "";
        svg.append(here);
        svg.addEventListener("click", (event) => {
          const box = svg.getBoundingClientRect();
          reach(Math.floor(((event.clientX - box.left) / box.width) * index.num_tokens), {});
        });
        const number = state.chosen.length > 1 ? `${state.chosen.indexOf(id) + 1} ` : "";
        overview.append(make("span", {}, `${number}${byId.get(id).name}`), svg);
      }
    }

    // ---- stream: chunks are placed at once and filled when they come near
    let near = null;
    const filled = new Map();
    function chunks() {
      near?.disconnect();
      filled.clear();
      near = new IntersectionObserver((entries) => {
        for (const entry of entries) if (entry.isIntersecting) fillChunk(entry.target);
      }, { root: stream, rootMargin: "600px" });
      const nodes = [];
      for (let at = 0; at < index.num_tokens; at += CHUNK_TOKENS) {
        const node = make("div", { class: "chunk", "data-from": at }, make("span", { class: "at" }, `token ${count(at)}`));
        nodes.push(node);
        near.observe(node);
      }
      return nodes;
    }
    const chunkOf = (at) => stream.children[Math.floor(at / CHUNK_TOKENS)];
    const fill = () => stream.firstElementChild && fillChunk(stream.firstElementChild);

    async function fillChunk(node) {
      if (filled.has(node)) return filled.get(node);
      const promise = fillNow(node);
      filled.set(node, promise);
      empty(node);
      return promise;
    }

    // Takes off the page what is farthest from the chunk that was filled last.
    function empty(node) {
      const far = (other) => Math.abs(Number(other.dataset.from) - Number(node.dataset.from));
      const others = [...filled.keys()].filter((other) => other !== node && !other.contains(document.activeElement));
      others.sort((a, b) => far(b) - far(a));
      for (const old of others.slice(0, Math.max(0, filled.size - KEPT_CHUNKS))) {
        filled.delete(old);
        old.classList.remove("filled");
        old.replaceChildren(old.firstElementChild);
      }
    }

    async function fillNow(node) {
      const from = Number(node.dataset.from);
      const until = Math.min(from + CHUNK_TOKENS, index.num_tokens);
      let range;
      try {
        range = await load(`tokens-${Math.floor(from / index.range_tokens)}`);
      } catch (error) {
        said.textContent = String(error.message);
        return;
      }
      const parts = [node.firstElementChild];
      let at = from;
      const plain = (end) => {
        if (end <= at) return;
        if (range.texts) parts.push(range.texts.slice(at - range.start, end - range.start).join(""));
        else parts.push(make("span", { class: "gap" }, ` · ${count(end - at)} ${end - at === 1 ? "token" : "tokens"} · `));
        at = end;
      };
      for (let place = lower(marks, from, (mark) => mark.at); place < marks.length && marks[place].at < until; place++) {
        plain(marks[place].at);
        parts.push(button(marks[place], range));
        // A line ends after its mark, not inside.
        const lines = range.texts?.[marks[place].at - range.start].match(/\n/g);
        if (lines) parts.push(lines.join(""));
        at = marks[place].at + 1;
      }
      plain(until);
      node.classList.add("filled");
      node.replaceChildren(...parts);
    }

    function button(mark, range) {
      const kind = index.classes[mark.kind];
      const text = range.texts?.[mark.at - range.start];
      const names = [...mark.by].map(([id, own]) => `${byId.get(id).name} ${index.classes[own]}`).join(", ");
      const node = make("button", {
        type: "button",
        class: `flip ${kind}${mark.followed ? " followed" : ""}`,
        tabindex: -1,
        "data-at": mark.at,
        "aria-label": `Token ${count(mark.at)}${text === undefined ? "" : `, recorded “${text.trim() || "white space"}”`}: ${names}${mark.followed ? ", followed" : ""}`,
        "aria-current": shown?.at === mark.at ? "true" : null,
      }, text === undefined ? `[${count(mark.at)}]` : seen(text));
      // Which of several stacks: a number each, as the controls number them.
      if (state.chosen.length > 1) {
        const who = [...mark.by.keys()].map((id) => state.chosen.indexOf(id) + 1).join("");
        node.append(make("span", { class: "who", "aria-hidden": "true" }, who));
      }
      return node;
    }
    // A token of white space alone would be a mark without a body.
    const seen = (text) => {
      const flat = text.replaceAll("\n", "⏎");
      return /^[\s⏎]*$/.test(flat) ? flat.replaceAll(" ", "␣").replaceAll("\t", "⇥") || "∅" : flat;
    };

    stream.addEventListener("click", (event) => {
      const node = event.target.closest(".flip");
      if (node) reach(Number(node.dataset.at), { focus: true });
    });
    stream.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const moves = { ArrowRight: 1, ArrowLeft: -1 };
      if (event.key in moves) step(moves[event.key], { focus: true, surest: event.shiftKey });
      else if (event.key === "Home" && marks.length) reach(marks[0].at, { focus: true });
      else if (event.key === "End" && marks.length) reach(marks[marks.length - 1].at, { focus: true });
      else if (event.key === "Enter" && shown) detail.querySelector("h2")?.focus();
      else return;
      event.preventDefault();
    });
    detail.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && shown) reach(shown.at, { focus: true });
    });

    function step(way, { focus = false, surest = false }) {
      const list = surest ? marks.filter((mark) => mark.kind === 3) : marks;
      if (!list.length) return;
      const now = state.at ?? -1;
      const next = way > 0 ? lower(list, now + 1, (mark) => mark.at) : lower(list, now, (mark) => mark.at) - 1;
      const mark = list[Math.max(0, Math.min(list.length - 1, next))];
      reach(mark.at, { focus });
    }

    async function reach(at, { focus = false }) {
      at = Math.max(0, Math.min(index.num_tokens - 1, Math.trunc(at)));
      state.at = at;
      place.value = String(at);
      const mine = ++turn;
      const node = chunkOf(at);
      // Its neighbours too, or they would push it out of sight when they are filled.
      await Promise.all([node.previousElementSibling, node, node.nextElementSibling].filter(Boolean).map(fillChunk));
      // A flip near the place is what was meant; otherwise the place alone is shown.
      let mark = marks[lower(marks, at, (one) => one.at)];
      if (mark?.at !== at) mark = null;
      await open(mark ?? null, at);
      if (mine !== turn) return;
      stream.querySelector('[aria-current="true"]')?.removeAttribute("aria-current");
      const target = node.querySelector(`[data-at="${at}"]`);
      target?.setAttribute("aria-current", "true");
      // Not scrollIntoView: it would move the page as well.
      const goal = target ?? node;
      const settle = () => {
        stream.scrollTop += goal.getBoundingClientRect().top - stream.getBoundingClientRect().top - stream.clientHeight / 3;
      };
      settle();
      // Heights of what was off screen are known only once it has been drawn.
      requestAnimationFrame(() => { if (mine === turn) settle(); });
      if (focus && target) target.focus({ preventScroll: true });
      for (const here of overview.querySelectorAll("[data-here]")) here.setAttribute("x", (at / index.num_tokens) * index.bins - 0.3);
      save();
    }

    // ---- the flip that is open
    async function open(mark, at = mark?.at) {
      shown = mark;
      if (!mark) {
        detail.replaceChildren(make("p", { class: "soft" }, at === undefined
          ? "No flip is open."
          : `Token ${count(at)}: none of the chosen stacks flips here. Use ← and → to go to the next flip.`));
        return;
      }
      const parts = [make("h2", { tabindex: -1 }, `Token ${count(mark.at)}`)];
      const mine = ++opened;
      for (const [id, kind] of mark.by) {
        try {
          parts.push(...(await ofStack(mark.at, id, kind)));
        } catch (error) {
          parts.push(make("p", { class: "notice" }, String(error.message)));
        }
      }
      if (mine === opened) detail.replaceChildren(...parts);
    }
    let opened = 0;

    async function ofStack(at, id, kind) {
      const stack = taken.get(`${id}/stack`);
      const range = await load(`${id}/flips-${Math.floor(at / index.range_tokens)}`);
      const flip = range.flips[lower(range.flips, at, (one) => one[0])];
      const segment = stack.segments.findIndex(([first, last]) => first <= at && at <= last);
      const forks = segment < 0 ? null : await load(`${id}/forks-${segment}`);
      const fork = forks?.forks.find((one) => one.at === at) ?? null;
      const known = byId.get(id);
      const parts = [
        make("h3", {}, known.name, " ", make("span", { class: "tag" }, index.classes[kind])),
        make("p", { class: "small soft" }, known.factor, `. Margin of the reference ${flip[6].toPrecision(3)} nats, KL here ${flip[7].toPrecision(3)} nats.`),
      ];
      if (fork) parts.push(make("p", { class: "context", tabindex: 0, role: "region", "aria-label": "What was written before" }, `…${fork.before.slice(-400)}`));
      parts.push(fork ? candidates(fork) : twoTokens(flip));
      if (!fork) {
        if (stack.forks.length) parts.push(make("p", { class: "small soft" }, "This flip was not followed."));
        return parts;
      }
      parts.push(...unrolled(fork));
      return parts;
    }

    const named = ([id, text]) => make("code", { class: "token" }, text === null ? `id ${id}` : seen(text));
    const bar = (p) => {
      const svg = drawn("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" });
      svg.append(drawn("rect", { class: "base", width: 100, height: 10 }), drawn("rect", { width: Math.max(0, Math.min(1, p)) * 100, height: 10 }));
      return svg;
    };
    const table = (heads, rows) => make("table", { class: "plain small" },
      make("thead", {}, make("tr", {}, ...heads.map(([text, kind]) => make("th", { scope: "col", class: kind }, text)))),
      make("tbody", {}, ...rows));
    const share = (p) => make("td", { class: "num" }, p === null ? "–" : p.toFixed(3));

    function twoTokens(flip) {
      const [, , , reference, candidate, p] = flip;
      return table([["Token"], ["Reference p", "num"], ["Stack p", "num"]], [
        make("tr", {}, make("td", {}, named(reference), " reference’s best"), share(p[0]), share(p[2])),
        make("tr", {}, make("td", {}, named(candidate), " stack’s best"), share(p[1]), share(p[3])),
      ]);
    }

    function candidates(fork) {
      const ids = new Map();
      fork.reference.slice(0, 8).forEach(([id, text, p]) => ids.set(id, { text, reference: p, candidate: null }));
      fork.candidate.slice(0, 8).forEach(([id, text, p]) => {
        if (ids.has(id)) ids.get(id).candidate = p;
        else ids.set(id, { text, reference: null, candidate: p });
      });
      const deeper = (list, id) => list.find((one) => one[0] === id)?.[2] ?? null;
      const rows = [...ids].map(([id, one]) => {
        const left = one.reference ?? deeper(fork.reference, id);
        const right = one.candidate ?? deeper(fork.candidate, id);
        const best = [id === fork.reference[0]?.[0] && "reference", id === fork.candidate[0]?.[0] && "stack"].filter(Boolean);
        return make("tr", {},
          make("td", {}, named([id, one.text]), best.length ? make("span", { class: "soft" }, ` best of ${best.join(" and ")}`) : ""),
          share(left), make("td", { class: "shares" }, left === null ? "" : bar(left)),
          share(right), make("td", { class: "shares" }, right === null ? "" : bar(right)));
      });
      return table([["Candidate"], ["Reference p", "num"], [""], ["Stack p", "num"], [""]].slice(0, 5), rows);
    }

    const ROLES = {
      reference: "Reference goes on",
      reference_candidate_token: "Reference, given the stack’s token",
      candidate: "Stack goes on",
    };
    const ENDS = { turn_end: "the turn ends", envelope: "the call is closed", length: "cut at the cap", context: "the context is full", not_continued: "not continued: branching, another token came first" };

    function unrolled(fork) {
      const parts = [];
      const told = fork.consequence;
      parts.push(make("p", { class: "verdict-line" }, told
        ? `${told.name[0].toUpperCase()}${told.name.slice(1)}${told.detail ? `: ${told.detail}` : ""}${told.in_reference ? " (the reference’s own future has this fault too)" : ""}.`
        : "Not used: branching, a stack did not write its captured token again."));
      const roles = fork.futures.map((future) => future.role);
      const others = fork.futures.filter((future) => future.role !== "reference");
      const columns = make("div", { class: "pair" });
      const longest = Math.max(...fork.futures.map((future) => future.tokens.length));
      let length = longest;
      const output = make("output", {});
      const draw = () => {
        const other = fork.futures.find((future) => future.role === state.role) ?? others[others.length - 1];
        const pair = [fork.futures.find((future) => future.role === "reference"), other].filter(Boolean);
        columns.replaceChildren(...pair.map((future) => column(future, pair.find((one) => one !== future), length)));
        output.textContent = `${count(Math.min(length, longest))} of ${count(longest)} tokens`;
      };
      const jump = (text, label, to) => {
        const node = make("button", { type: "button", "aria-label": label }, text);
        node.addEventListener("click", () => { length = Math.max(1, Math.min(longest, to())); draw(); });
        return node;
      };
      const steps = make("div", { class: "steps" },
        jump("first", "first token only", () => 1), jump("−", "− one token", () => length - 1),
        jump("+", "+ one token", () => length + 1), jump("all", "all tokens", () => longest), output);
      if (roles.includes("reference_candidate_token") && roles.includes("reference")) {
        const select = make("select", { "aria-label": "Future beside the reference’s" },
          make("option", { value: "candidate" }, "beside it: the stack"),
          make("option", { value: "reference_candidate_token" }, "beside it: the stack’s token in the reference"));
        select.value = state.role;
        select.addEventListener("change", () => { state.role = select.value; draw(); });
        steps.append(select);
      }
      draw();
      parts.push(steps, columns);
      return parts;
    }

    function column(future, other, length) {
      const tokens = future.tokens.slice(0, length);
      const body = make("div", { class: "future", tabindex: 0, role: "region", "aria-label": ROLES[future.role] });
      body.append(make("span", { class: "first" }, seen(tokens[0] ?? "")));
      // From here on: the text without its first token, literals marked.
      body.append(...marked(tokens.slice(1).join(""), future.literals));
      const cut = future.num_tokens > future.tokens.length ? `, ${count(future.num_tokens - future.tokens.length)} more tokens in the bundle` : "";
      const notes = [];
      if (length >= future.tokens.length) notes.push(make("p", { class: "finish" }, `${count(future.num_tokens)} tokens, ${ENDS[future.finish] ?? future.finish}${cut}.`));
      for (const [right, wrong] of future.mutated) notes.push(make("p", { class: "small" }, make("span", { class: "bad" }, "mutated "), make("code", { class: "token" }, right), " → ", make("code", { class: "token" }, wrong)));
      for (const missing of future.missing) notes.push(make("p", { class: "small" }, make("span", { class: "bad" }, "missing "), make("code", { class: "token" }, missing)));
      return make("section", {}, make("h3", {}, ROLES[future.role], " ", make("span", { class: "tag" }, future.verdict)), body, ...notes);
    }

    // Longest literal first, so that a literal inside another does not hide it.
    function marked(text, literals) {
      const parts = [];
      const sorted = literals.filter(([word]) => word).sort((a, b) => b[0].length - a[0].length);
      let plain = 0;
      for (let at = 0; at < text.length;) {
        const hit = sorted.find(([word]) => text.startsWith(word, at) && !/\w/.test(text[at - 1] ?? " ") && !/\w/.test(text[at + word.length] ?? " "));
        if (!hit) { at++; continue; }
        if (plain < at) parts.push(text.slice(plain, at));
        parts.push(make("mark", { class: hit[1], title: `literal, ${hit[1]}` }, hit[0]));
        plain = at += hit[0].length;
      }
      if (plain < text.length) parts.push(text.slice(plain));
      return parts;
    }

    restore();
  }

  return { take };
})();
