/** Type, spacing and the panels of the status page. */
export const layoutStyle = `
* { box-sizing: border-box; }
html { scroll-padding-top: 1rem; }
body {
  margin: 0; background: var(--ground); color: var(--text);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; -webkit-text-size-adjust: 100%;
}
#page, .plain { margin: 0 auto; max-width: 80rem; padding: 1.25rem clamp(.75rem, 2.5vw, 2rem) 2.5rem; }
h1, h2, h3, p, ul, dl, dd, dt { margin: 0; padding: 0; }
ul { list-style: none; }
h1 { font-size: 1.3rem; line-height: 1.25; letter-spacing: -.01em; }
h2 { font-size: 1.02rem; line-height: 1.3; }
h3 { font-size: .95rem; margin-top: 1rem; }
a { color: var(--link); text-decoration-thickness: 1px; text-underline-offset: 2px; }
code { font: .92em ui-monospace, "SF Mono", Menlo, Consolas, monospace; overflow-wrap: anywhere; }
.dim { color: var(--dim); }
.nowrap { white-space: nowrap; }
.long { overflow-wrap: anywhere; }
p.bad, .oldest.bad { color: var(--bad); }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; border-radius: 3px; }
[tabindex="-1"]:focus { outline: none; }
.skip { position: absolute; left: -100vw; }
.skip:focus { left: .75rem; top: .5rem; background: var(--panel); padding: .4rem .8rem; z-index: 20; }

.top { display: flex; align-items: center; justify-content: space-between; gap: .5rem 1.5rem; flex-wrap: wrap; }
.top .dim { font-size: .9rem; overflow-wrap: anywhere; }
.standing {
  display: inline-flex; align-items: center; gap: .5rem; font-weight: 650; font-size: 1.05rem; border-radius: 99px;
  padding: .3rem .95rem .3rem .75rem; border: 1px solid;
}
.dot { width: .65rem; height: .65rem; border-radius: 50%; background: currentColor; }
.ok { color: var(--ok); } .busy { color: var(--busy); } .warn { color: var(--warn); }
.standing.bad, .pill.bad { color: var(--bad); } .unknown { color: var(--unknown); }
.standing, .pill { background: color-mix(in srgb, currentColor 8%, var(--panel)); }
.pill {
  display: inline-block; border-radius: 99px; padding: 0 .6rem; font-size: .84rem; font-weight: 600; white-space: nowrap;
  border: 1px solid color-mix(in srgb, currentColor 35%, transparent);
}

main { display: block; }
.content, main { display: flex; flex-direction: column; gap: 1rem; }
main { margin-top: 1rem; }
.panel, .figures > div {
  background: var(--panel); border: 1px solid var(--line); border-radius: 10px; padding: 1rem 1.1rem;
}
.panel { min-width: 0; }
.panel > header { display: flex; flex-wrap: wrap; gap: 0 1rem; justify-content: space-between; align-items: baseline; margin-bottom: .7rem; }
.summary { color: var(--dim); font-size: .9rem; font-variant-numeric: tabular-nums; }
.pair { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 1rem; }

.notice { border: 1px solid; border-left-width: 5px; border-radius: 8px; padding: .75rem 1rem; background: var(--panel); }
.notice.bad { border-color: var(--bad); } .notice.busy { border-color: var(--busy); }
.notice, .notice p { color: var(--text); }
.notice p { overflow-wrap: anywhere; }
.reasons { display: grid; gap: .7rem; }
.tag {
  font-size: .84rem; font-weight: 600; padding: .1rem .45rem; border-radius: 4px; color: var(--text);
  background: var(--track); margin-right: .25rem;
}
.fix { color: var(--dim); font-size: .92rem; }

.figures { display: grid; grid-template-columns: repeat(6, minmax(0, 1fr)); gap: .75rem; }
.figures > div { padding: .75rem .9rem; display: flex; flex-direction: column; }
dt { color: var(--dim); font-size: .86rem; }
dd.value { font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
dd.note { color: var(--dim); font-size: .84rem; overflow-wrap: anywhere; font-variant-numeric: tabular-nums; }
.figures .value { font-size: clamp(1.15rem, 1.75vw, 1.55rem); font-weight: 650; line-height: 1.3; letter-spacing: -.01em; }
.figures .unit { font-size: .62em; font-weight: 500; color: var(--dim); letter-spacing: 0; }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: .5rem 1.25rem; margin-top: .75rem; }
.facts .value { font-weight: 600; }

.search form { display: flex; align-items: center; gap: .4rem .9rem; flex-wrap: wrap; }
.search label { font-size: .9rem; color: var(--dim); }
.field { display: flex; gap: .5rem; flex: 1 1 18rem; max-width: 44rem; }
input, button { font: inherit; border-radius: 7px; border: 1px solid var(--edge); min-height: 2.4rem; }
input { flex: 1; min-width: 0; padding: .3rem .7rem; background: var(--panel); color: var(--text); }
input::placeholder { color: var(--dim); opacity: 1; }
button { padding: .3rem 1rem; background: var(--link); color: var(--panel); border-color: var(--link); font-weight: 600; cursor: pointer; }
button.quiet { background: none; color: var(--link); min-height: 0; padding: .15rem .75rem; }
.found { margin-top: .75rem; display: grid; gap: .5rem; grid-template-columns: minmax(0, 1fr); }
.foundHead { display: flex; justify-content: space-between; gap: 1rem; align-items: start; }
pre {
  margin: .4rem 0 0; padding: .75rem; max-height: 26rem; overflow: auto; background: var(--ground); border-radius: 7px;
  border: 1px solid var(--line); font: .82rem/1.5 ui-monospace, "SF Mono", Menlo, Consolas, monospace;
}
summary { cursor: pointer; color: var(--link); width: fit-content; }
details { margin-top: .5rem; }

.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 30rem), 1fr)); gap: .75rem; }
h3 + .cards, details .cards { margin-top: .6rem; }
.card { border: 1px solid var(--line); border-radius: 8px; padding: .7rem .85rem; min-width: 0; }
.card .title { display: flex; justify-content: space-between; gap: .75rem; align-items: baseline; }
.card .dim { font-size: .88rem; overflow-wrap: anywhere; }
.card .facts { grid-template-columns: repeat(auto-fit, minmax(6.5rem, 1fr)); margin-top: .5rem; gap: .4rem 1rem; }
.troubles { margin-top: .6rem; display: grid; gap: .35rem; font-size: .9rem; }
.troubles li { border-left: 3px solid var(--late); padding-left: .6rem; overflow-wrap: anywhere; }

.below { margin-top: .5rem; }
.oldest { margin-bottom: .7rem; overflow-wrap: anywhere; }
.ranges { display: grid; gap: .4rem; margin-top: .8rem; font-variant-numeric: tabular-nums; }
.ranges li { display: flex; flex-wrap: wrap; align-items: center; gap: .1rem .6rem; font-size: .92rem; }
.ranges .why { flex-basis: 100%; color: var(--dim); padding-left: 1.3rem; overflow-wrap: anywhere; }
progress { width: 7rem; height: .5rem; accent-color: var(--doing); }
.sources { margin-top: .7rem; display: grid; gap: .2rem; font-size: .92rem; }
.sources li { overflow-wrap: anywhere; }
footer { margin-top: 1.5rem; font-size: .9rem; display: grid; gap: .3rem; }
footer nav { display: flex; flex-wrap: wrap; gap: .3rem 1.25rem; }

@media (max-width: 62rem) {
  .figures > div { grid-column: span 2; }
  .pair { grid-template-columns: minmax(0, 1fr); }
}
@media (max-width: 40rem) {
  body { font-size: 15px; }
  #page { padding-top: .85rem; }
  .panel { padding: .85rem .8rem; }
  .figures { gap: .5rem; }
  .figures > div { grid-column: span 3; padding: .6rem .7rem; }
  .search label { flex-basis: 100%; }
  .card .facts { grid-template-columns: repeat(2, minmax(0, 1fr)); }
}
`;
