/** A list whose items are made one by one while the answer is written, so that making them can take turns with other work. */
export class LazyList<T> implements Iterable<T> {
  readonly #items: () => Iterable<T>;

  constructor(items: () => Iterable<T>) {
    this.#items = items;
  }

  [Symbol.iterator](): Iterator<T> {
    return this.#items()[Symbol.iterator]();
  }

  map<U>(change: (item: T) => U): LazyList<U> {
    const items = this.#items;
    return new LazyList(function* () {
      for (const item of items()) yield change(item);
    });
  }

  toJSON(): T[] {
    return [...this];
  }
}
