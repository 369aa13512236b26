import { Window } from '../../src/collections/index.js';
import type { WindowDependencies, WindowOptions } from '../../src/collections/heights/Window.js';

/** A window over this store, or over one that stays at a watermark; by default of 100 heights and without a head. */
export function windowOf(
  store: number | WindowDependencies['store'],
  {
    head = () => undefined,
    share,
    ...options
  }: Partial<WindowOptions & Pick<WindowDependencies, 'share'>> & {
    readonly head?: () => number | undefined;
  } = {},
): Window {
  const over =
    typeof store === 'number' ? { latestIndexedHeight: () => store, hasHeight: () => false } : store;
  return new Window(
    { heights: 100, limitBytes: 1e6, ...options },
    { store: over, finalizedHeight: head, ...(share === undefined ? {} : { share }) },
  );
}
