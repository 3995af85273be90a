(() => {
  const box = document.getElementById("map-box");
  const svg = box.querySelector("svg");
  const tip = document.getElementById("map-tip");
  const focus = document.getElementById("map-focus");
  const size = svg.viewBox.baseVal;
  const rows = [...svg.querySelectorAll(".row")].map((mark) => {
    const at = mark.getBBox();
    return { mark, x: at.x + at.width / 2, y: at.y + at.height / 2 };
  });

  const hide = () => {
    tip.hidden = true;
    focus.setAttribute("cx", -50);
  };

  const show = ({ mark, x, y }, scale) => {
    const { id, k, p, label } = mark.dataset;
    const lines = [`Row ${id}`, `${classes[k]}, ${p} sure`];
    if (label !== undefined) lines.push(`labelled ${classes[label]}`);
    tip.replaceChildren(...lines.map((text) => Object.assign(document.createElement("div"), { textContent: text })));
    tip.hidden = false;
    focus.setAttribute("cx", x);
    focus.setAttribute("cy", y);
    const left = Math.min(x * scale + 14, box.clientWidth - tip.offsetWidth - 4);
    const above = y * scale - tip.offsetHeight - 12;
    tip.style.left = `${Math.max(left, 4)}px`;
    tip.style.top = `${above > 0 ? above : y * scale + 16}px`;
  };

  const point = (event) => {
    const frame = svg.getBoundingClientRect();
    const scale = frame.width / size.width;
    const x = (event.clientX - frame.left) / scale;
    const y = (event.clientY - frame.top) / scale;
    let nearest = null;
    let least = (18 / scale) ** 2;
    for (const row of rows) {
      if (row.mark.classList.contains("dim")) continue;
      const distance = (row.x - x) ** 2 + (row.y - y) ** 2;
      if (distance < least) [nearest, least] = [row, distance];
    }
    if (nearest) show(nearest, scale);
    else hide();
  };
  svg.addEventListener("pointermove", point);
  svg.addEventListener("pointerdown", point);
  svg.addEventListener("pointerleave", hide);

  const buttons = [...document.querySelectorAll("#map-legend button")];
  for (const button of buttons) {
    button.addEventListener("click", () => {
      const only = button.getAttribute("aria-pressed") === "true" ? null : button.dataset.k;
      for (const other of buttons) other.setAttribute("aria-pressed", String(other.dataset.k === only));
      for (const { mark } of rows) {
        mark.classList.toggle("dim", only !== null && (mark.dataset.label ?? mark.dataset.k) !== only);
      }
      hide();
    });
  }
})();
