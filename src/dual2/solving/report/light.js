"use strict";
// A small stand-in for plotly.js: curves on axes as SVG, and the values of the nearest point. There
// is no zoom. It takes what report.js gives to Plotly.react.
const Plotly = (() => {
  const SPACE = "http://www.w3.org/2000/svg";
  const STROKES = { solid: "", dash: "7 4", dashdot: "8 3 2 3", dot: "2 3" };
  const GLYPHS = {
    star: "★", square: "■", "triangle-up": "▲", "triangle-down": "▼", diamond: "◆", circle: "●",
    cross: "✚", x: "✖", hexagon: "⬢", "triangle-left": "◀", "triangle-right": "▶",
    pentagon: "⬟", "diamond-tall": "♦", octagon: "⬣", hexagon2: "⬡",
  };
  const REACH = 40; // pixels within which a pointer finds a point

  function make(name, attributes, text) {
    const made = document.createElementNS(SPACE, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  const raised = (power) =>
    "10" + String(power).replace(/[-0-9]/g, (c) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(c)]);
  const short = (value) =>
    value >= 1e6 ? `${value / 1e6}M` : value >= 1e3 ? `${value / 1e3}k` : String(Number(value.toPrecision(6)));

  // Places of ticks and their texts; a range of a logarithmic axis is in powers of ten.
  function ticks({ type, range: [low, high] }, most) {
    if (type === "log") {
      const stride = Math.max(1, Math.ceil((high - low) / most)), found = [];
      for (let power = Math.ceil(low); power <= high; power += stride) found.push([power, raised(power)]);
      return found;
    }
    const rough = (high - low) / most, unit = 10 ** Math.floor(Math.log10(rough));
    const step = unit * [1, 2, 5, 10].find((factor) => factor * unit >= rough), found = [];
    for (let at = Math.ceil(low / step) * step; at <= high; at += step) found.push([at, short(at)]);
    return found;
  }

  const scale = ({ type, range: [low, high] }, first, last) => (value) =>
    first + (((type === "log" ? Math.log10(value) : value) - low) / (high - low)) * (last - first);

  function axes(picture, layout, box) {
    const { xaxis, yaxis, font } = layout;
    const grid = { stroke: xaxis.gridcolor, "stroke-width": 1 };
    const ink = { fill: font.color, "font-size": 12, stroke: "none" };
    const plain = (axis) => ({ ...axis, type: "linear" });
    const across = scale(plain(xaxis), box.left, box.right), up = scale(plain(yaxis), box.bottom, box.top);
    for (const [at, text] of ticks(xaxis, box.right - box.left < 400 ? 4 : 8)) {
      const x = across(at);
      picture.append(make("line", { ...grid, x1: x, x2: x, y1: box.top, y2: box.bottom }));
      picture.append(make("text", { ...ink, x, y: box.bottom + 17, "text-anchor": "middle" }, text));
    }
    for (const [at, text] of ticks(yaxis, 8)) {
      const y = up(at);
      picture.append(make("line", { ...grid, x1: box.left, x2: box.right, y1: y, y2: y }));
      picture.append(make("text", { ...ink, x: box.left - 7, y: y + 4, "text-anchor": "end" }, text));
    }
    const middle = (box.left + box.right) / 2, height = (box.top + box.bottom) / 2;
    picture.append(make("text", { ...ink, x: middle, y: box.bottom + 42, "text-anchor": "middle" }, xaxis.title.text));
    const turned = `rotate(-90 14 ${height})`;
    picture.append(make("text", { ...ink, x: 14, y: height, "text-anchor": "middle", transform: turned }, yaxis.title.text));
  }

  // A curve and its markers; the places of its points in pixels.
  function curve(picture, trace, across, up) {
    const places = trace.x.map((x, row) => [across(x), up(trace.y[row])])
      .map((place, row) => [...place, row]).filter(([x, y]) => Number.isFinite(x) && Number.isFinite(y));
    const points = places.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" ");
    const { color, dash, width } = trace.line;
    const look = { fill: "none", stroke: color, "stroke-width": width, "stroke-dasharray": STROKES[dash] || "" };
    picture.append(make("polyline", { ...look, points }));
    if (trace.mode.includes("markers")) {
      const every = Math.max(1, Math.ceil(places.length / trace.marker.maxdisplayed));
      const glyph = { fill: color, "font-size": 1.6 * trace.marker.size, "text-anchor": "middle", "dominant-baseline": "central" };
      places.filter((_, row) => row % every === 0).forEach(([x, y]) =>
        picture.append(make("text", { ...glyph, x, y }, GLYPHS[trace.marker.symbol] || "●")));
    }
    return places.map(([x, y, row]) => ({ x, y, row, trace }));
  }

  function follow(picture, points, layout, box) {
    const tip = make("text", { x: box.left, y: box.top - 10, fill: layout.font.color, "font-size": 12 });
    const mark = make("circle", { r: 5, fill: "none", "stroke-width": 2, visibility: "hidden" });
    picture.append(tip, mark);
    const away = ({ x, y }, at) => Math.hypot(x - at[0], y - at[1]);
    picture.addEventListener("pointermove", (event) => {
      const corner = picture.getBoundingClientRect();
      const at = [event.clientX - corner.left, event.clientY - corner.top];
      const near = points.reduce((best, one) => (away(one, at) < away(best, at) ? one : best), points[0]);
      const found = near && away(near, at) < REACH;
      mark.setAttribute("visibility", found ? "visible" : "hidden");
      tip.textContent = "";
      if (!found) return;
      const { trace, row } = near, [rounds, , , seconds] = trace.customdata[row];
      mark.setAttribute("cx", near.x);
      mark.setAttribute("cy", near.y);
      mark.setAttribute("stroke", trace.line.color);
      tip.textContent = `${trace.name}: ${trace.y[row].toExponential(2)} · rounds ${rounds} · ${seconds} s`;
    });
  }

  function paint(canvas) {
    const { traces, layout } = canvas.shown, { l, r, t, b } = layout.margin;
    const width = canvas.clientWidth, height = layout.height;
    const box = { left: l, right: width - r, top: t, bottom: height - b };
    const picture = make("svg", { width, height, viewBox: `0 0 ${width} ${height}` });
    const clip = `clip-${canvas.parentElement.dataset.group}`, inside = make("clipPath", { id: clip });
    const size = { x: box.left, y: box.top, width: box.right - box.left, height: box.bottom - box.top };
    inside.append(make("rect", size));
    const lines = make("g", { "clip-path": `url(#${clip})` });
    axes(picture, layout, box);
    picture.append(inside, lines);
    const across = scale(layout.xaxis, box.left, box.right), up = scale(layout.yaxis, box.bottom, box.top);
    const visible = traces.filter((trace) => trace.visible);
    follow(picture, visible.flatMap((trace) => curve(lines, trace, across, up)), layout, box);
    canvas.replaceChildren(picture);
  }

  function react(canvas, traces, layout) {
    const first = !canvas.shown;
    canvas.shown = { traces, layout };
    paint(canvas);
    if (first) addEventListener("resize", () => paint(canvas));
  }

  return { react };
})();
