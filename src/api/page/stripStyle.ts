/** The strips of the status page: coverage, window, and the columns of the last hour. */
export const stripStyle = `
[role="listbox"] { cursor: crosshair; }
[role="listbox"]:focus-visible { outline-offset: 4px; }
[role="option"], .swatch, .empty, .bar { forced-color-adjust: none; }
.readout {
  min-height: 1.45em; margin-top: .35rem; font-size: .9rem; line-height: 1.45; overflow-wrap: anywhere;
  font-variant-numeric: tabular-nums;
}
.legend { margin-top: .5rem; display: flex; flex-wrap: wrap; gap: .15rem 1.1rem; font-size: .86rem; color: var(--dim); }
.legend li { display: flex; align-items: center; gap: .4rem; }
.swatch { flex: none; width: .8rem; height: .8rem; border-radius: 3px; }
.scale { margin-top: .2rem; display: flex; justify-content: space-between; font-size: .84rem; color: var(--dim); font-variant-numeric: tabular-nums; }

.coverage { position: relative; height: 2.4rem; background: var(--track); border-radius: 5px; overflow: hidden; }
.segment {
  position: absolute; top: 0; bottom: 0; left: min(var(--at), calc(100% - 4px)); width: max(4px, var(--wide));
}
.segment[aria-selected="true"] { box-shadow: inset 0 0 0 2px var(--text); z-index: 9; }
.indexed { background: var(--done); }
.segment.indexed { z-index: 2; }
.filling { background: repeating-linear-gradient(135deg, var(--doing) 0 5px, color-mix(in srgb, var(--doing) 72%, var(--panel)) 5px 9px); }
.segment.filling, .segment.begun { z-index: 3; }
.begun { background: color-mix(in srgb, var(--doing) 55%, var(--panel)); }
.failed, .disputed { background: var(--stuck); }
.segment.failed, .segment.disputed { z-index: 4; }
.next { background: repeating-linear-gradient(90deg, color-mix(in srgb, var(--doing) 45%, var(--track)) 0 2px, var(--track) 2px 6px); }
.planned { background: repeating-linear-gradient(135deg, var(--edge) 0 2px, var(--track) 2px 7px); }
.unserved { background: repeating-linear-gradient(135deg, var(--late) 0 2px, var(--track) 2px 7px); }
.missing { background: var(--track); }
.swatch.missing, .swatch.planned, .swatch.unserved, .swatch.next { border: 1px solid var(--edge); }

.window { display: grid; grid-template-columns: repeat(auto-fill, minmax(13px, 1fr)); gap: 3px; }
.cell, .empty { height: 15px; border-radius: 3px; }
.empty { background: var(--track); opacity: .55; }
.cell[aria-selected="true"] { box-shadow: 0 0 0 2px var(--panel), 0 0 0 4px var(--text); }
.waiting { background: var(--track); border: 1px solid var(--edge); }
.linked { background: var(--grey); }
.collecting { background: var(--doing); }
.late { background: var(--late); }
.stuck { background: var(--stuck); }
.complete { background: var(--edi); }
.committing { background: var(--requester); }
.durable { background: var(--done); }

.columns {
  display: grid; grid-auto-flow: column; grid-auto-columns: calc((100% - 60px) / 61); gap: 1px; justify-content: end;
  height: 5.5rem; border-bottom: 1px solid var(--edge);
  background: repeating-linear-gradient(0deg, transparent 0 calc(50% - 1px), var(--line) calc(50% - 1px) 50%);
}
.column { display: flex; flex-direction: column; justify-content: end; min-width: 0; }
.column[aria-selected="true"] { background: color-mix(in srgb, var(--text) 14%, transparent); }
.bar { height: var(--tall); display: block; }
.edi { background: var(--edi); }
.peer { background: var(--peer); }
.requester { background: var(--requester); }
.commit { background: var(--doing); border-radius: 2px 2px 0 0; }
.stale .strip [role="listbox"], .stale .swatch, .stale .pill { filter: grayscale(1); }
@media (max-width: 40rem) {
  .readout { min-height: 2.9em; }
  .window { gap: 2px; grid-template-columns: repeat(auto-fill, minmax(10px, 1fr)); }
  .cell, .empty { height: 11px; }
  .legend { gap: .1rem .8rem; }
}
`;
