import type { ComponentChildren, VNode } from 'preact';
import { useId } from 'preact/hooks';

interface PanelProps {
  readonly title: string;
  /** The current state in one sentence, beside the title. */
  readonly summary?: ComponentChildren;
  readonly look?: string;
  readonly children: ComponentChildren;
}

/** A part of the page, with a heading. */
export function Panel({ title, summary, look = '', children }: PanelProps): VNode {
  const id = useId();
  return (
    <section class={`panel ${look}`} aria-labelledby={id}>
      <header>
        <h2 id={id}>{title}</h2>
        {summary === undefined ? null : <p class="summary">{summary}</p>}
      </header>
      {children}
    </section>
  );
}

/** A list of names with values and notes. */
export function Facts({
  look = 'facts',
  items,
}: {
  readonly look?: string;
  readonly items: readonly (readonly [name: string, value: ComponentChildren, note?: ComponentChildren])[];
}): VNode {
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

/** What the colours of a strip mean. */
export function Legend({
  items,
}: {
  readonly items: readonly (readonly [look: string, text: string])[];
}): VNode {
  return (
    <ul class="legend">
      {items.map(([look, text]) => (
        <li key={look}>
          <span class={`swatch ${look}`} aria-hidden="true" />
          {text}
        </li>
      ))}
    </ul>
  );
}
