/** Ids remembered for each method. */
const IDS_KEPT_MAX = 10_000;

interface MethodLog {
  count: number;
  inFlight: number;
  highestHeight: number;
  readonly ids: string[];
}

/** What clients asked for: counters per method, and a bounded list of ids. For tests. */
export class RequestLog {
  readonly #methods = new Map<string, MethodLog>();
  #highestAsked = -1;
  #highestSent = -1;

  /** Calls since the start or last `reset`, of one method or all, refused ones included. */
  count(method?: string): number {
    if (method !== undefined) return this.#methods.get(method)?.count ?? 0;
    let sum = 0;
    for (const log of this.#methods.values()) sum += log.count;
    return sum;
  }

  /** Calls per method. */
  counts(): ReadonlyMap<string, number> {
    return new Map([...this.#methods].map(([method, log]) => [method, log.count]));
  }

  /** The highest height asked for by number, of one method or all; -1 for none. */
  highestHeightAsked(method?: string): number {
    return method === undefined ? this.#highestAsked : (this.#methods.get(method)?.highestHeight ?? -1);
  }

  /** The highest height whose block, collections or execution data were sent; -1 for none. */
  get highestHeightSent(): number {
    return this.#highestSent;
  }

  /** The latest ids asked for with this method, oldest first, as hex, repetitions included. */
  idsAsked(method: string): readonly string[] {
    return this.#methods.get(method)?.ids.slice(-IDS_KEPT_MAX) ?? [];
  }

  inFlight(method: string): number {
    return this.#methods.get(method)?.inFlight ?? 0;
  }

  reset(): void {
    for (const log of this.#methods.values()) {
      log.count = 0;
      log.highestHeight = -1;
      log.ids.length = 0;
    }
    this.#highestAsked = -1;
    this.#highestSent = -1;
  }

  /** Starts a call. Call the returned function once, when it ends. */
  begin(method: string, subject: { readonly height?: number; readonly id?: string }): () => void {
    const log = this.#of(method);
    log.count++;
    log.inFlight++;
    if (subject.height !== undefined) {
      log.highestHeight = Math.max(log.highestHeight, subject.height);
      this.#highestAsked = Math.max(this.#highestAsked, subject.height);
    }
    if (subject.id !== undefined) {
      log.ids.push(subject.id);
      if (log.ids.length >= 2 * IDS_KEPT_MAX) log.ids.splice(0, IDS_KEPT_MAX);
    }
    return () => {
      log.inFlight--;
    };
  }

  sent(height: number): void {
    if (height > this.#highestSent) this.#highestSent = height;
  }

  #of(method: string): MethodLog {
    let log = this.#methods.get(method);
    if (log === undefined) {
      log = { count: 0, inFlight: 0, highestHeight: -1, ids: [] };
      this.#methods.set(method, log);
    }
    return log;
  }
}
