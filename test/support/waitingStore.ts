import { MemoryIndexStore } from './memoryIndexStore.js';

/** A store whose reads by ids wait until they are let go; from now on, where it is there already. */
export function waitingStore(store = new MemoryIndexStore()) {
  let asked = (): void => undefined;
  let answer = (): void => undefined;
  const reading = new Promise<void>((resolve) => (asked = resolve));
  const nothing = new Promise<undefined>((resolve) => (answer = () => resolve(undefined)));
  store.item = () => {
    asked();
    return nothing;
  };
  return { store, reading, answer: () => answer() };
}
