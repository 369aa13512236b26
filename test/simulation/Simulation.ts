import { Catalogue } from './catalogue.js';
import type { ReferenceKind } from './plan.js';
import { isProvableWorld, signingOfWorld } from './proofs.js';
import { faultFree, scenarioOf, stretchOf } from './scenario.js';
import { Workshop, World, type RunResult } from './World.js';

/** Runs seeds, and knows how each of them must end. */
export class Simulation {
  readonly #catalogue = new Catalogue();
  readonly #workshop = new Workshop();
  readonly #references: Map<string, string>;

  /** `references`: of fault-free runs, by `referenceKey`, where they are known already. */
  constructor(options: { readonly references?: ReadonlyMap<string, string> } = {}) {
    this.#references = new Map(options.references);
  }

  /** The store of the fault-free run over a stretch. Expected errors: `RunFailure`. */
  async reference(index: number, kind: ReferenceKind = {}): Promise<string> {
    const key = referenceKey(index, kind);
    const known = this.#references.get(key);
    if (known !== undefined) return known;
    const stretch = this.#catalogue.at(index, kind.isProvable, kind.signing);
    const world = new World(faultFree(index, stretch, kind), { stretch, workshop: this.#workshop });
    const { digest } = await world.run(() => undefined);
    this.#references.set(key, digest);
    return digest;
  }

  /** Expected errors: `RunFailure`. */
  async run(seed: number, print?: (line: string) => void): Promise<RunResult> {
    const index = stretchOf(seed);
    const signing = signingOfWorld(seed, index);
    const stretch = this.#catalogue.at(index, isProvableWorld(seed), signing);
    const scenario = scenarioOf(seed, stretch);
    const { isProvable } = stretch;
    const kind = { isProvable, proofMode: scenario.config.proof.mode, signing };
    // Made beforehand: worlds share the metrics.
    const plain = await this.reference(index, kind);
    const withAccounts =
      scenario.accountsFrom === Infinity
        ? plain
        : await this.reference(index, { ...kind, hasAccounts: true });
    const reference = (hasAccounts: boolean): string => (hasAccounts ? withAccounts : plain);
    return new World(scenario, { stretch, workshop: this.#workshop, print }).run(reference);
  }
}

/** Equal for runs that end in the same store. */
export function referenceKey(
  index: number,
  { hasAccounts = false, isProvable = false, proofMode = 'auto', signing }: ReferenceKind,
): string {
  const proofs = isProvable ? (proofMode === 'off' ? 'hashed ids' : 'proofs') : 'made-up ids';
  const by = signing === undefined ? '' : ` by ${signing}`;
  return `${index} ${proofs}${by}${hasAccounts ? ' accounts' : ''}`;
}
