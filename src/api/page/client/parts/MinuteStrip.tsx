import type { ComponentChildren, VNode } from 'preact';
import { timeOf } from '../format.js';
import { Strip } from './Strip.js';
import type { Minute } from '../types.js';

export interface MinuteStripProps {
  readonly label: string;
  readonly hint: string;
  readonly minutes: readonly Minute[];
  /** The column of a minute, and its description. */
  readonly column: (minute: Minute) => { readonly words: string; readonly content: VNode };
  readonly children?: ComponentChildren;
}

/** The last hour, a column per minute. */
export function MinuteStrip({ minutes, column, ...strip }: MinuteStripProps): VNode {
  const items = minutes.map((minute) => {
    const { words, content } = column(minute);
    const beganAt = new Date(Date.now() - minute.ageSeconds * 1_000);
    return {
      // Stays the same for a minute in every status.
      key: Math.round(beganAt.getTime() / 10_000),
      look: 'column',
      label: `From ${timeOf(beganAt)}: ${words}`,
      content,
    };
  });
  return <Strip {...strip} look="columns" ends={['an hour ago', 'now']} items={items} />;
}
