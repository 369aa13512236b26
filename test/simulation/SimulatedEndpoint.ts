import type { CallStatus } from '../../src/access/transport/upstreamErrors.js';
import { methods, Subscriptions, UnaryCalls } from '../../src/devnet/index.js';
import type { DevnetMethod, DevnetNode } from '../../src/devnet/index.js';
import type { Dice } from './Dice.js';
import { RESET } from './SimulatedChannel.js';
import { pastUnbound } from './unboundBytes.js';

export interface Backend {
  readonly node: DevnetNode;
  readonly calls: UnaryCalls;
  readonly subscriptions: Subscriptions;
}

export function backendOf(node: DevnetNode): Backend {
  return { node, calls: new UnaryCalls({ node }), subscriptions: new Subscriptions({ node }) };
}

export const SOUND_LINK = {
  usualMs: 3,
  /** Share of messages that take up to `slowMs`. */
  slowShare: 0,
  slowMs: 0,
  lossShare: 0,
  /** Share of questions that arrive twice. */
  twiceShare: 0,
  /** Share of collections and execution data in which a byte is another. */
  corruptShare: 0,
};

/** How badly the network between client and node behaves. */
export type LinkQuality = Readonly<typeof SOUND_LINK>;

interface CallUnderWay {
  broken(callStatus: CallStatus): void;
  /** Nothing comes any more, and nobody says so. */
  severed(): void;
}

/** An address and the network to it. Several nodes may stand behind it, as behind a load balancer: a call meets any of them. */
export class SimulatedEndpoint {
  readonly name: string;
  readonly onBug: (error: unknown) => void;
  readonly #dice: Dice;
  readonly #unbound: readonly Buffer[];
  readonly #underWay = new Set<CallUnderWay>();
  state: 'up' | 'refusing' | 'silent' = 'up';
  link: LinkQuality = SOUND_LINK;
  backends: readonly Backend[] = [];

  constructor(
    options: { readonly name: string; /** See `corrupted`. */ readonly unbound: readonly Buffer[] },
    dependencies: { readonly dice: Dice; readonly onBug: (error: unknown) => void },
  ) {
    this.name = options.name;
    this.#unbound = options.unbound;
    this.#dice = dependencies.dice;
    this.onBug = dependencies.onBug;
  }

  backend(): Backend {
    return this.#dice.pick(this.backends);
  }

  get underWay(): number {
    return this.#underWay.size;
  }

  enter(call: CallUnderWay): () => void {
    this.#underWay.add(call);
    return () => void this.#underWay.delete(call);
  }

  /** What becomes of one message, drawn when it leaves. */
  fate(method: DevnetMethod) {
    const { corruptShare, lossShare, twiceShare } = this.link;
    const { subject } = methods[method];
    const mayBeCorrupt = ['collection', 'transaction', 'executionData', 'indexedBlock'].includes(subject);
    return {
      thereMs: this.#travelMs(),
      backMs: this.#travelMs(),
      isLost: this.#dice.chance(lossShare),
      isTwice: this.#dice.chance(twiceShare),
      isCorrupt: mayBeCorrupt && this.#dice.chance(corruptShare),
    };
  }

  /** With another bit somewhere, but where no id binds it: nobody could tell, and the store would be another one. */
  corrupted(message: Buffer): Buffer {
    const changed = Buffer.from(message);
    if (changed.length === 0) return changed;
    const drawn = this.#dice.whole(0, changed.length - 1);
    const at = pastUnbound(changed, drawn, this.#unbound) % changed.length;
    changed.writeUInt8(changed.readUInt8(at) ^ (1 << this.#dice.whole(0, 7)), at);
    return changed;
  }

  reset(): void {
    for (const call of [...this.#underWay]) call.broken(RESET);
  }

  goDown(how: 'refusing' | 'silent'): void {
    this.state = how;
    if (how === 'refusing') this.reset();
    else for (const call of [...this.#underWay]) call.severed();
  }

  #travelMs(): number {
    const { slowMs, slowShare, usualMs } = this.link;
    const dice = this.#dice;
    if (slowShare > 0 && dice.chance(slowShare)) return dice.magnitude(1, slowMs);
    return usualMs * (0.5 + dice.random.next());
  }
}
