import type { ComponentChildren, VNode } from 'preact';
import { useId } from 'preact/hooks';

interface PanelProps {
  readonly title: string;
  /** The current state in one sentence, beside the title. */
  readonly summary: string;
  readonly children: ComponentChildren;
}

/** A part of the page, with a heading. */
export function Panel({ title, summary, children }: PanelProps): VNode {
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

interface FactsProps {
  readonly look?: string;
  readonly items: readonly (readonly [name: string, value: ComponentChildren, note?: ComponentChildren])[];
}

/** A list of names with values and notes. */
export function Facts({ look = 'facts', items }: FactsProps): VNode {
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
