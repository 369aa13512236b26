import { Catalogue } from './catalogue.js';
import { faultFree, scenarioOf, stretchOf } from './scenario.js';
import { Workshop, World } from './World.js';
import type { RunResult } from './World.js';

/** Runs seeds, and knows how each of them must end. */
export class Simulation {
  readonly #catalogue = new Catalogue();
  readonly #workshop = new Workshop();
  readonly #references: Map<number, string>;
  /** Of runs with an account index. */
  readonly #accountReferences = new Map<number, string>();

  /** `references`: digests of fault-free runs by stretch, where they are known already. */
  constructor(options: { readonly references?: ReadonlyMap<number, string> } = {}) {
    this.#references = new Map(options.references);
  }

  /** The store of the fault-free run over a stretch. Expected errors: `RunFailure`. */
  async reference(index: number, hasAccounts = false): Promise<string> {
    const references = hasAccounts ? this.#accountReferences : this.#references;
    const known = references.get(index);
    if (known !== undefined) return known;
    const { digest } = await this.faultFree(index, undefined, hasAccounts);
    references.set(index, digest);
    return digest;
  }

  /** Expected errors: `RunFailure`. */
  faultFree(index: number, print?: (line: string) => void, hasAccounts = false): Promise<RunResult> {
    const stretch = this.#catalogue.at(index);
    const scenario = faultFree(index, stretch, hasAccounts);
    const known = hasAccounts ? this.#accountReferences : this.#references;
    const world = new World({ scenario, print }, { stretch, workshop: this.#workshop });
    return world.run(() => known.get(index));
  }

  /** Expected errors: `RunFailure`. */
  async run(seed: number, print?: (line: string) => void): Promise<RunResult> {
    const index = stretchOf(seed);
    const stretch = this.#catalogue.at(index);
    const scenario = scenarioOf(seed, stretch);
    // Made beforehand: worlds share the metrics.
    const plain = await this.reference(index);
    const withAccounts = scenario.accountsFrom === Infinity ? plain : await this.reference(index, true);
    const reference = (hasAccounts: boolean): string => (hasAccounts ? withAccounts : plain);
    return new World({ scenario, print }, { stretch, workshop: this.#workshop }).run(reference);
  }
}
