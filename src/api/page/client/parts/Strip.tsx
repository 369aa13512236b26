import type { ComponentChildren, VNode } from 'preact';
import { useId, useRef, useState } from 'preact/hooks';

export interface StripItem {
  readonly key: string | number;
  /** Its full description. */
  readonly label: string;
  /** Class names, which set the colour. */
  readonly look: string;
  /** CSS properties. */
  readonly style?: Readonly<Record<string, string>>;
  readonly content?: ComponentChildren;
}

interface StripProps {
  readonly label: string;
  readonly look: string;
  readonly items: readonly StripItem[];
  /** Shown below while no item is pointed at. */
  readonly hint: string;
  /** Labels of the two ends. */
  readonly ends?: readonly [left: string, right: string];
  /** Empty places to draw after the items. */
  readonly empty?: number;
  /** The legend. */
  readonly children?: ComponentChildren;
}

/**
 * Many small items in a row. The label of the one that is pointed at, or reached with the arrow keys, is shown below. The strip is a
 * single tab stop.
 */
export function Strip({ label, look, items, hint, ends, empty = 0, children }: StripProps): VNode {
  const id = useId();
  const list = useRef<HTMLDivElement>(null);
  const [chosen, choose] = useState<string | number | undefined>();
  const [hasFocus, setFocus] = useState(false);
  const at = items.findIndex(({ key }) => key === chosen);
  const active = items[at];

  const onKeyDown = (event: KeyboardEvent): void => {
    const next = nextPlace(event.key, at, items.length, list.current);
    if (next === undefined) return;
    event.preventDefault();
    choose(items[next]?.key);
  };
  return (
    <div class="strip">
      <div
        ref={list}
        class={look}
        role="listbox"
        aria-label={label}
        aria-orientation="horizontal"
        aria-activedescendant={active === undefined ? undefined : `${id}-${active.key}`}
        tabIndex={0}
        onKeyDown={onKeyDown}
        onFocus={() => {
          setFocus(true);
          if (active === undefined) choose(items[0]?.key);
        }}
        onBlur={() => {
          setFocus(false);
          choose(undefined);
        }}
        onPointerLeave={() => {
          if (!hasFocus) choose(undefined);
        }}
      >
        {items.map(({ key, label: name, look: its, style = {}, content }) => (
          <div
            key={key}
            id={`${id}-${key}`}
            class={its}
            style={style}
            role="option"
            aria-label={name}
            aria-selected={key === active?.key}
            onPointerEnter={() => choose(key)}
            onPointerDown={() => choose(key)}
          >
            {content}
          </div>
        ))}
        {Array.from({ length: empty }, (_, place) => (
          <span key={`empty-${place}`} class="empty" aria-hidden="true" />
        ))}
      </div>
      {ends === undefined ? null : (
        <p class="scale" aria-hidden="true">
          <span>{ends[0]}</span>
          <span>{ends[1]}</span>
        </p>
      )}
      {children}
      <p class="readout" aria-hidden="true">
        {active?.label ?? <span class="dim">{hint}</span>}
      </p>
    </div>
  );
}

/** The place that a key moves to; `undefined` for other keys. */
function nextPlace(key: string, at: number, length: number, list: HTMLDivElement | null): number | undefined {
  const last = length - 1;
  const within = (place: number): number => Math.max(0, Math.min(last, place));
  switch (key) {
    case 'ArrowRight':
      return within(at + 1);
    case 'ArrowLeft':
      return within(at - 1);
    case 'ArrowDown':
      return within(at + columnsOf(list));
    case 'ArrowUp':
      return within(at - columnsOf(list));
    case 'Home':
      return 0;
    case 'End':
      return last;
    default:
      return undefined;
  }
}

/** The number of items in the first row. */
function columnsOf(list: HTMLDivElement | null): number {
  const places = [...(list?.children ?? [])].map((child) => (child as HTMLElement).offsetTop);
  const second = places.findIndex((top) => top > (places[0] ?? 0));
  return second === -1 ? 1 : second;
}
