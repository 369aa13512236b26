import type { ComponentChildren, VNode } from 'preact';
import { useId } from 'preact/hooks';

/** A part of the page, with a heading. `summary`: the current state in one sentence, beside the title. */
export function Panel({
  title,
  summary,
  children,
}: Readonly<{ title: string; summary: string; children: ComponentChildren }>): VNode {
  const id = useId();
  return (
    <section class="panel" aria-labelledby={id}>
      <header>
        <h2 id={id}>{title}</h2>
        <p class="summary">{summary}</p>
      </header>
      {children}
    </section>
  );
}

type Fact = readonly [name: string, value: ComponentChildren, note?: ComponentChildren];

/** A list of names with values and notes. */
export function Facts({ look = 'facts', items }: { look?: string; items: readonly Fact[] }): VNode {
  return (
    <dl class={look}>
      {items.map(([name, value, note]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd class="value">{value}</dd>
          {note === undefined ? null : <dd class="note">{note}</dd>}
        </div>
      ))}
    </dl>
  );
}
