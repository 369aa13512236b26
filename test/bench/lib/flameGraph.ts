import type { Frame } from './cpuProfile.js';

/** Narrower than this share of all time a call is not drawn: nobody could see it. */
const MIN_SHARE = 0.0005;
const MAX_DEPTH = 200;

type Drawn = readonly [
  name: string,
  room: string,
  place: string,
  selfUs: number,
  totalUs: number,
  children: Drawn[],
];

/** A page of its own that draws the calls as a flame graph: no network, no library. Click to zoom, type to search. */
export function flameGraphPage(root: Frame, title: string): string {
  const floorUs = root.totalUs * MIN_SHARE;
  const draw = (frame: Frame, depth: number): Drawn => [
    ...([frame.name, frame.room, frame.place, frame.selfUs, frame.totalUs] as const),
    depth >= MAX_DEPTH
      ? []
      : frame.children
          .filter(({ totalUs }) => totalUs >= floorUs)
          .sort((left, right) => right.totalUs - left.totalUs)
          .map((child) => draw(child, depth + 1)),
  ];
  // "<" could end the script element.
  const data = JSON.stringify(draw(root, 0)).replaceAll('<', '\\u003c');
  const safeTitle = title.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>${safeTitle}</title>
<style>
  body { font: 13px system-ui, sans-serif; margin: 12px; }
  #bar { display: flex; gap: 12px; align-items: center; flex-wrap: wrap; margin-bottom: 8px; }
  #graph { position: relative; width: 100%; }
  #graph div { position: absolute; height: 17px; line-height: 17px; overflow: hidden; white-space: nowrap;
    font-size: 11px; padding-left: 3px; box-sizing: border-box; border-right: 1px solid #fff; cursor: pointer; }
  #graph div.dim { opacity: 0.25; }
  #note { min-height: 1.4em; color: #333; }
  .key { padding: 1px 6px; border-radius: 3px; font-size: 11px; }
</style>
<h1 style="font-size: 16px; margin: 0 0 8px">${safeTitle}</h1>
<div id="bar"><button id="reset">whole graph</button><input id="search" placeholder="search functions and rooms">
<span id="keys"></span></div>
<div id="note">Widths are time on the main thread; waiting is left out. Click a call to zoom.</div>
<div id="graph"></div>
<script>
const root = ${data};
const [NAME, ROOM, PLACE, SELF, TOTAL, CHILDREN] = [0, 1, 2, 3, 4, 5];
const graph = document.getElementById('graph');
const note = document.getElementById('note');
const search = document.getElementById('search');
const hue = (text) => { let h = 7; for (const c of text) h = (h * 31 + c.charCodeAt(0)) % 360; return h; };
const color = (room) => room === 'v8' || room === 'native' ? '#ccc' : room === 'node' ? '#dcdcee'
  : 'hsl(' + hue(room) + ' 65% 76%)';
const ms = (us) => (us / 1000).toFixed(1) + ' ms';
const share = (us) => (us * 100 / root[TOTAL]).toFixed(1) + ' %';
let zoomed = root;
function paint() {
  graph.textContent = '';
  const wanted = search.value.toLowerCase();
  let depths = 0;
  const box = (frame, left, width, depth) => {
    depths = Math.max(depths, depth);
    const div = document.createElement('div');
    div.style.cssText = 'left:' + left + '%;width:' + width + '%;top:' + depth * 18 + 'px;background:' + color(frame[ROOM]);
    div.textContent = frame[NAME];
    div.title = frame[NAME] + '\\n' + frame[ROOM] + '  ' + frame[PLACE] + '\\ntotal ' + ms(frame[TOTAL]) + ' (' +
      share(frame[TOTAL]) + '), self ' + ms(frame[SELF]) + ' (' + share(frame[SELF]) + ')';
    if (wanted !== '' && !(frame[NAME] + ' ' + frame[ROOM]).toLowerCase().includes(wanted)) div.className = 'dim';
    div.onclick = () => { zoomed = frame; note.textContent = div.title.replaceAll('\\n', ' · '); paint(); };
    graph.append(div);
    let at = left;
    for (const child of frame[CHILDREN]) {
      const part = width * child[TOTAL] / frame[TOTAL];
      if (part > 0.05) box(child, at, part, depth + 1);
      at += part;
    }
  };
  box(zoomed, 0, 100, 0);
  graph.style.height = (depths + 1) * 18 + 'px';
}
const rooms = new Map();
(function visit(frame) {
  rooms.set(frame[ROOM], (rooms.get(frame[ROOM]) || 0) + frame[SELF]);
  frame[CHILDREN].forEach(visit);
})(root);
for (const [room, us] of [...rooms].sort((a, b) => b[1] - a[1]).slice(0, 14)) {
  const key = document.createElement('span');
  key.className = 'key';
  key.style.background = color(room);
  key.textContent = room + ' ' + share(us);
  document.getElementById('keys').append(key, ' ');
}
document.getElementById('reset').onclick = () => { zoomed = root; paint(); };
search.oninput = paint;
paint();
</script>
</html>
`;
}
