import type { Clock } from '../../runtime/index.js';
import { checkFaults, type FaultEffect, type FaultRule, methodsOf } from './faultRules.js';
import type { DevnetMethod } from './rpcMethods.js';
import { Prng } from '../chain/Prng.js';

/** For how many subjects attempts are counted, so that a probability applies to each attempt. */
const SUBJECTS_KEPT_MAX = 65_536;

interface ActiveRule {
  readonly rule: FaultRule;
  readonly index: number;
  readonly methods: ReadonlySet<DevnetMethod>;
  matches: number;
  fired: number;
  /** Most recently asked subject last. */
  readonly attempts: Map<string, number>;
}

/** What a call or a stream message is about. */
export interface FaultSubject {
  readonly on: 'open' | 'message';
  readonly height: number | undefined;
  /** An id that distinguishes subjects where the height does not. */
  readonly key: string;
}

/**
 * The active rules. Whether a probabilistic fault strikes depends on the seed, the rule, the subject and its
 * number of attempts, not on the order in which calls arrive.
 */
export class FaultScript {
  readonly #seed: number;
  readonly #clock: Clock;
  readonly #startedAtMs: number;
  #rules: ActiveRule[] = [];

  constructor(options: { readonly seed: number }, dependencies: { readonly clock: Clock }) {
    this.#seed = options.seed;
    this.#clock = dependencies.clock;
    this.#startedAtMs = dependencies.clock.monotonic();
  }

  /** Replaces all rules and resets their counts. Expected errors: `OperatorError('configuration')`. */
  set(rules: readonly FaultRule[]): void {
    this.#rules = checkFaults(rules).map((rule, index) => ({
      rule,
      index,
      methods: new Set(methodsOf(rule)),
      matches: 0,
      fired: 0,
      attempts: new Map<string, number>(),
    }));
  }

  /** How often each rule struck, in rule order. */
  fired(): readonly number[] {
    return this.#rules.map(({ fired }) => fired);
  }

  /** The faults that strike now, in rule order. */
  strike(method: DevnetMethod, subject: FaultSubject): readonly FaultEffect[] {
    if (this.#rules.length === 0) return [];
    const effects: FaultEffect[] = [];
    for (const active of this.#rules) {
      if (active.rule.fault === 'execution_data_lag') continue;
      if (!this.#applies(active, method, subject.height)) continue;
      if ((active.rule.on ?? 'message') !== subject.on) continue;
      if (this.#fires(active, method, subject)) effects.push(active.rule);
    }
    return effects;
  }

  /** By how many blocks the rules delay execution data. */
  executionDataLag(method: DevnetMethod, height: number): number {
    let lag = 0;
    for (const active of this.#rules) {
      const { rule } = active;
      if (rule.fault === 'execution_data_lag' && this.#applies(active, method, height)) lag += rule.blocks;
    }
    return lag;
  }

  /** True if the rule's conditions on method, height and time hold. */
  #applies(active: ActiveRule, method: DevnetMethod, height: number | undefined): boolean {
    const { rule } = active;
    if (!active.methods.has(method)) return false;
    if (rule.fromHeight !== undefined || rule.toHeight !== undefined) {
      if (height === undefined) return false;
      if (height < (rule.fromHeight ?? 0) || height > (rule.toHeight ?? Infinity)) return false;
    }
    if (rule.afterMs === undefined && rule.untilMs === undefined) return true;
    const age = this.#clock.monotonic() - this.#startedAtMs;
    return age >= (rule.afterMs ?? 0) && age < (rule.untilMs ?? Infinity);
  }

  /** Counts a match, and decides by the rule's counters and probability whether the fault strikes. */
  #fires(active: ActiveRule, method: DevnetMethod, subject: FaultSubject): boolean {
    const { rule } = active;
    if (rule.times !== undefined && active.fired >= rule.times) return false;
    active.matches++;
    const counted = active.matches - (rule.skip ?? 0);
    if (counted <= 0 || counted % (rule.every ?? 1) !== 0) return false;
    if (rule.probability !== undefined && !this.#chance(active, method, subject, rule.probability)) {
      return false;
    }
    active.fired++;
    return true;
  }

  #chance(active: ActiveRule, method: DevnetMethod, subject: FaultSubject, probability: number): boolean {
    const name = `${method} ${subject.height ?? ''} ${subject.key}`;
    const attempt = (active.attempts.get(name) ?? 0) + 1;
    active.attempts.delete(name);
    active.attempts.set(name, attempt);
    if (active.attempts.size > SUBJECTS_KEPT_MAX) {
      for (const oldest of active.attempts.keys()) {
        active.attempts.delete(oldest);
        break;
      }
    }
    return new Prng(this.#seed, active.index, hashOf(name), attempt).chance(probability);
  }
}

/** FNV-1a. */
function hashOf(text: string): number {
  let hash = 0x811c_9dc5;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x0100_0193);
  return hash;
}
