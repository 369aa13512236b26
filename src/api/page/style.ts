/**
 * The style sheet of the status page. A colour has one meaning everywhere: green is done, blue is in progress, amber is late, red
 * needs attention. Text has a contrast of at least 4.5, shapes of 3.
 */
export const styleSheet = `
:root {
  color-scheme: light dark;
  --ground: #f2f4f7; --panel: #ffffff; --text: #18202a; --dim: #525d6a; --line: #d8dee6; --link: #0a53be;
  --ok: #12683c; --busy: #1a52b8; --warn: #854f00; --bad: #b01f24;
  --done: #1f9159; --doing: #2f6fed; --late: #c47500; --stuck: #d02f2f; --track: #e7ebf0; --edge: #a3aebb;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #0e1318; --panel: #171d24; --text: #e7ebf0; --dim: #9ca8b6; --line: #2c3540; --link: #82b5ff;
    --ok: #5ccf97; --busy: #8bbaff; --warn: #f2b94b; --bad: #ff948b;
    --done: #38ad74; --doing: #5c95ff; --late: #eda126; --stuck: #ff655b; --track: #262e38; --edge: #5d6977;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--ground); color: var(--text);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; -webkit-text-size-adjust: 100%;
}
#page, .plain { margin: 0 auto; max-width: 80rem; padding: 1.25rem clamp(.75rem, 2.5vw, 2rem) 2.5rem; }
h1, h2, h3, p, ul, dl, dd, dt { margin: 0; padding: 0; }
ul { list-style: none; }
h1 { font-size: 1.3rem; line-height: 1.25; letter-spacing: -.01em; }
h2 { font-size: 1.02rem; line-height: 1.3; }
h3 { font-size: .95rem; margin: 1rem 0 .6rem; }
a { color: var(--link); text-decoration-thickness: 1px; text-underline-offset: 2px; }
code { font: .92em ui-monospace, "SF Mono", Menlo, Consolas, monospace; overflow-wrap: anywhere; }
.dim { color: var(--dim); }
.nowrap { white-space: nowrap; }
.long, .top .dim, .notice p, .oldest, dd, .troubles li, .why { overflow-wrap: anywhere; }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; border-radius: 3px; }
[tabindex="-1"]:focus { outline: none; }
.skip { position: absolute; left: -100vw; }
.skip:focus { left: .75rem; top: .5rem; background: var(--panel); padding: .4rem .8rem; z-index: 20; }

.top { display: flex; align-items: center; justify-content: space-between; gap: .5rem 1.5rem; flex-wrap: wrap; }
.standing, .pill { border: 1px solid; border-radius: 99px; background: color-mix(in srgb, currentColor 8%, var(--panel)); }
.standing { display: inline-flex; align-items: center; gap: .5rem; font-weight: 650; font-size: 1.05rem; padding: .3rem .95rem .3rem .75rem; }
.pill { display: inline-block; padding: 0 .6rem; font-size: .84rem; font-weight: 600; white-space: nowrap; }
.dot { width: .65rem; height: .65rem; border-radius: 50%; background: currentColor; }
.ok { color: var(--ok); } .busy { color: var(--busy); } .warn { color: var(--warn); }
.bad { color: var(--bad); } .unknown { color: var(--dim); }

main, .content { display: flex; flex-direction: column; gap: 1rem; }
main { margin-top: 1rem; }
.panel, .figures > div { background: var(--panel); border: 1px solid var(--line); border-radius: 10px; padding: 1rem 1.1rem; min-width: 0; }
.panel > header, .title { display: flex; flex-wrap: wrap; gap: 0 1rem; justify-content: space-between; align-items: baseline; }
.panel > header { margin-bottom: .7rem; }
.summary { color: var(--dim); font-size: .9rem; }
.summary, .value, .note, .scale, .ranges { font-variant-numeric: tabular-nums; }

.notice { border: 1px solid; border-left-width: 5px; border-radius: 8px; padding: .75rem 1rem; background: var(--panel); }
.notice p, .notice li { color: var(--text); }
.reasons { display: grid; gap: .7rem; }
.tag { font-size: .84rem; font-weight: 600; padding: .1rem .45rem; border-radius: 4px; background: var(--track); }
.notice .fix { color: var(--dim); font-size: .92rem; }

.glance { display: grid; gap: .75rem; }
.figures { display: grid; grid-template-columns: repeat(6, minmax(0, 1fr)); gap: .75rem; }
.figures > div { padding: .75rem .9rem; }
dt { color: var(--dim); font-size: .86rem; }
.note { color: var(--dim); font-size: .84rem; }
.value { font-weight: 600; }
.figures .value { font-size: clamp(1.15rem, 1.75vw, 1.55rem); line-height: 1.3; letter-spacing: -.01em; }
.figures .unit { font-size: .62em; font-weight: 500; color: var(--dim); letter-spacing: 0; }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(6.5rem, 1fr)); gap: .4rem 1rem; margin-top: .5rem; }

.search form { display: flex; align-items: center; gap: .4rem .9rem; flex-wrap: wrap; }
.search label { font-size: .9rem; color: var(--dim); }
.field { display: flex; gap: .5rem; flex: 1 1 18rem; max-width: 44rem; }
input, button { font: inherit; border-radius: 7px; border: 1px solid var(--edge); min-height: 2.4rem; }
input { flex: 1; min-width: 0; padding: .3rem .7rem; background: var(--panel); color: var(--text); }
input::placeholder { color: var(--dim); opacity: 1; }
button { padding: .3rem 1rem; background: var(--link); color: var(--panel); border-color: var(--link); font-weight: 600; cursor: pointer; }
button.quiet { background: none; color: var(--link); min-height: 0; padding: .15rem .75rem; }
.found { margin-top: .75rem; display: grid; gap: .5rem; grid-template-columns: minmax(0, 1fr); }
pre {
  margin: .4rem 0 0; padding: .75rem; max-height: 26rem; overflow: auto; background: var(--ground); border-radius: 7px;
  border: 1px solid var(--line); font: .82rem/1.5 ui-monospace, "SF Mono", Menlo, Consolas, monospace;
}
summary { cursor: pointer; color: var(--link); width: fit-content; margin: .5rem 0; }

.segment, .swatch { forced-color-adjust: none; }
.strip { position: relative; height: 2.4rem; background: var(--track); border-radius: 5px; overflow: hidden; }
.segment { position: absolute; top: 0; bottom: 0; left: min(var(--at), calc(100% - 4px)); width: max(4px, var(--wide)); }
.segment:hover { box-shadow: inset 0 0 0 2px var(--text); z-index: 9; }
.segment.indexed { z-index: 2; }
.segment.filling, .segment.begun { z-index: 3; }
.segment.failed, .segment.disputed { z-index: 4; }
.swatch { flex: none; width: .8rem; height: .8rem; border-radius: 3px; border: 1px solid var(--edge); }
.indexed { background: var(--done); }
.filling { background: repeating-linear-gradient(135deg, var(--doing) 0 5px, color-mix(in srgb, var(--doing) 72%, var(--panel)) 5px 9px); }
.begun { background: color-mix(in srgb, var(--doing) 55%, var(--panel)); }
.failed, .disputed { background: var(--stuck); }
.next { background: repeating-linear-gradient(90deg, color-mix(in srgb, var(--doing) 45%, var(--track)) 0 2px, var(--track) 2px 6px); }
.planned { background: repeating-linear-gradient(135deg, var(--edge) 0 2px, var(--track) 2px 7px); }
.unserved { background: repeating-linear-gradient(135deg, var(--late) 0 2px, var(--track) 2px 7px); }
.missing { background: var(--track); }
.scale { display: flex; justify-content: space-between; margin-top: .2rem; }
.scale, .legend { font-size: .86rem; color: var(--dim); }
.legend { margin: .5rem 0; display: flex; flex-wrap: wrap; gap: .15rem 1.1rem; }
.legend li, .ranges li { display: flex; flex-wrap: wrap; align-items: center; gap: .1rem .5rem; }
.ranges { display: grid; gap: .4rem; margin-top: .5rem; font-size: .92rem; }
.stretches { max-height: 20rem; overflow: auto; }
.why { flex-basis: 100%; color: var(--dim); padding-left: 1.3rem; }
progress { width: 7rem; height: .5rem; accent-color: var(--doing); }

.sources { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .3rem 1.25rem; align-items: baseline; }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 30rem), 1fr)); gap: .75rem; }
.card { border: 1px solid var(--line); border-radius: 8px; padding: .7rem .85rem; min-width: 0; }
.card .dim { font-size: .88rem; }
.troubles { margin-top: .6rem; display: grid; gap: .35rem; font-size: .9rem; }
.troubles li { border-left: 3px solid var(--late); padding-left: .6rem; }
.stale .strip, .stale .swatch, .stale .pill { filter: grayscale(1); }
table { border-collapse: collapse; width: 100%; font-size: .92rem; margin: .5rem 0; }
td { border-bottom: 1px solid var(--line); padding: .35rem .75rem .35rem 0; vertical-align: top; overflow-wrap: anywhere; }
td:first-child { width: 13rem; }
summary .dim { display: block; }
footer { margin-top: 1.5rem; font-size: .9rem; display: grid; gap: .3rem; }
footer nav { display: flex; flex-wrap: wrap; gap: .3rem 1.25rem; }

@media (max-width: 62rem) { .figures { grid-template-columns: repeat(3, minmax(0, 1fr)); } }
@media (max-width: 40rem) {
  .figures { grid-template-columns: repeat(2, minmax(0, 1fr)); gap: .5rem; }
  .figures > div, .panel { padding: .7rem .75rem; }
  .search label { flex-basis: 100%; }
  .card .facts { grid-template-columns: repeat(2, minmax(0, 1fr)); }
}
`;
