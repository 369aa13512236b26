/** Stands in for what `inner` gives now: does some things itself, and passes everything else on. */
export function standIn<T extends object>(inner: () => T, own: Partial<T>): T {
  return new Proxy({} as T, {
    get: (_, name) => {
      const owner = Object.hasOwn(own, name) ? own : inner();
      const found: unknown = Reflect.get(owner, name);
      return typeof found === 'function' ? (found.bind(owner) as unknown) : found;
    },
  });
}
